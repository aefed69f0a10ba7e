# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import BACKEND

from rpent_box.errors import LaunchError
from rpent_box.launch.gpus import (
    ALL_GPUS,
    check_gpus,
    installed_gpus,
    is_a_gpu_here,
    parse_gpus,
)
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.worker import require_gpu
from rpent_box.worker.needs import Needs

TABLE = """0, GPU-5a1b2c3d-0000-1111-2222-333344445555, NVIDIA H200
1, GPU-6f7e8d9c-0000-1111-2222-333344445555, NVIDIA A100-SXM4-40GB
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose `nvidia-smi` prints `TABLE`."""
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\ncat <<'END'\n{TABLE}END\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.fixture
def no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_drivers_table_is_read() -> None:
    first, second = parse_gpus(TABLE)
    assert (first.index, first.name) == ("0", "NVIDIA H200")
    assert second.uuid == "GPU-6f7e8d9c-0000-1111-2222-333344445555"
    assert parse_gpus("No devices were found\n") == ()


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    "wanted",
    [
        (),
        ALL_GPUS,
        ("0",),
        ("0", "1"),
        ("GPU-6f7e8d9c-0000-1111-2222-333344445555",),
        ("GPU-6f7e",),
        ("MIG-1234",),
    ],
)
def test_gpus_are_known_by_index_or_uuid(wanted: tuple[str, ...]) -> None:
    check_gpus(wanted)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("wanted", ["2", "GPU-", "GPU-ffff", "cuda:0"])
def test_an_unknown_gpu_is_refused_with_those_that_are_there(wanted: str) -> None:
    with pytest.raises(LaunchError, match=f"there is no GPU {wanted} here") as caught:
        check_gpus((wanted,))
    assert "0 = NVIDIA H200 (GPU-5a1b2c3d" in caught.value.hint
    assert "1 = NVIDIA A100" in caught.value.hint


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_there_are_no_gpus() -> None:
    assert installed_gpus() == ()
    check_gpus(())
    with pytest.raises(LaunchError) as caught:
        check_gpus(("0",))
    assert "nvidia-smi" in caught.value.hint


@pytest.mark.usefixtures("no_driver")
def test_a_gpu_shows_by_its_device_files_or_its_driver(tmp_path: Path) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    assert not is_a_gpu_here(devices)
    (devices / "nvidia0").touch()
    assert is_a_gpu_here(devices)


@pytest.mark.usefixtures("driver")
def test_a_driver_that_answers_is_enough(tmp_path: Path) -> None:
    assert is_a_gpu_here(tmp_path / "no-devices")


def test_a_model_that_needs_a_gpu_is_not_started_where_none_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = ProcessLauncher({})
    monkeypatch.setattr("rpent_box.launch.process.is_a_gpu_here", lambda: False)
    require_gpu(BACKEND, Needs(device="cpu"), launcher)
    with pytest.raises(LaunchError, match="toy computes on an NVIDIA GPU") as caught:
        require_gpu(BACKEND, Needs(device="cuda"), launcher)
    assert "rpent-box serve toy --listen" in caught.value.hint
    with pytest.raises(LaunchError) as caught:
        require_gpu(replace(BACKEND, borrows="a_service"), Needs(device="cuda"), launcher)
    assert caught.value.hint.startswith("Borrow a running service: --a-service URL.")
    with pytest.raises(LaunchError) as caught:
        require_gpu(replace(BACKEND, variants=("cpu",)), Needs(device="cuda"), launcher)
    assert caught.value.hint.endswith("--device cpu")
    monkeypatch.setattr("rpent_box.launch.process.is_a_gpu_here", lambda: True)
    require_gpu(BACKEND, Needs(device="cuda"), launcher)
