# SPDX-License-Identifier: Apache-2.0
"""A model that needs a GPU, on a machine without one."""

from types import SimpleNamespace

import pytest
from msgspec import Struct
from msgspec.structs import replace
from rpent_box_toy import backend
from rpent_box_toy.running import Recorder, register_toy, toy_config

from rpent_box.errors import LaunchError
from rpent_box.evaluate import run

BLIND = SimpleNamespace(name="process", view="host", sees_gpus=lambda: False)


class LargeOptions(Struct, frozen=True, kw_only=True):
    service: str = ""


@pytest.fixture(autouse=True)
def _large_toy(monkeypatch):
    """Let the toy need a GPU, and let no run get further than to look for one."""
    register_toy(monkeypatch)
    large = replace(
        backend.BACKEND,
        options=LargeOptions,
        needs_gpu=True,
        variants=("cpu",),
        borrows="service",
    )
    monkeypatch.setattr(backend, "BACKEND", large)
    monkeypatch.setattr(run, "choose_launcher", lambda _asked: (BLIND, "asked for"))
    monkeypatch.setattr(run, "gather", _went_on)
    monkeypatch.setattr(run, "_inspect", lambda *_: None)


class WentOnError(Exception):
    pass


def _went_on(*_):
    raise WentOnError


def play(tmp_path, **changes):
    run.run_episodes(toy_config(tmp_path, **changes), Recorder())


def test_it_is_refused_before_anything_is_hashed_built_or_written(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_inspect", _went_on)
    with pytest.raises(LaunchError, match="toy computes on an NVIDIA GPU") as caught:
        play(tmp_path)
    assert caught.value.hint.endswith("--device cpu")
    assert list(tmp_path.iterdir()) == []


def test_on_the_cpu_the_run_goes_on(tmp_path):
    with pytest.raises(WentOnError):
        play(tmp_path, device="cpu")


def test_with_a_borrowed_service_or_worker_no_gpu_is_looked_for(tmp_path):
    with pytest.raises(WentOnError):
        play(tmp_path, backend_arguments=("--service=ws://there:1",))
    with pytest.raises(WentOnError):
        play(tmp_path, endpoint="ipc:///tmp/w.sock", python=None)
