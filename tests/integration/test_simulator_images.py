# SPDX-License-Identifier: Apache-2.0
"""Each simulator's image: confined, as recorded, and to the byte what its environment shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import one_chunk
import platform_actions
import pytest
from confined import CONFINED, look_around, run_confined
from msgspec.structs import replace
from platform_subjects import first_scene, missing_assets, options_here

from rpent_box.errors import LaunchError
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.environments import find_environment
from rpent_box.launch.images import image_name, image_state
from rpent_box.launch.recipe import Target
from rpent_box.options import path_fields, to_arguments
from rpent_box.plugins import find_platform
from rpent_box.sim.platform import PlatformPlugin

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

TIMEOUT_S = 1800
pytestmark = [pytest.mark.docker, pytest.mark.simulator, pytest.mark.timeout(TIMEOUT_S)]

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = ("libero", "robotwin", "robocasa")
GOLDEN = "rpent-box.golden"


@pytest.fixture(scope="module", params=PLATFORMS)
def platform(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def image(platform: str) -> str:
    """The platform's image, built from this checkout."""
    name = image_name("platform", platform)
    try:
        check_engine(engine_socket())
    except LaunchError as error:
        pytest.skip(f"no Docker engine: {error.message}")
    target = Target("platform", platform)
    if image_state(_engine(), *target) != "ready":
        build_images([target], say=lambda _text: None, environ=os.environ)
    return name


def test_its_build_compared_it_with_what_is_recorded(image: str) -> None:
    assert _engine().client.images.get(image).labels[GOLDEN] == "checked"


def test_a_confined_container_can_only_do_its_work(image: str) -> None:
    assert look_around(_engine(), image) == CONFINED


def test_doctor_finds_it_as_recorded_in_a_container(
    platform: str, image: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "rpent_box.cli.main", "doctor", "--json"]
    command += ["--platform", platform, "--launcher", "docker"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=TIMEOUT_S / 2,
    )
    findings = {found["name"]: found for found in json.loads(done.stdout)["findings"]}
    assert findings[f"golden {platform}"]["status"] == "ok", findings[f"golden {platform}"]
    assert findings[f"render {platform}"]["status"] != "fail"


def test_a_container_shows_to_the_byte_what_a_process_shows(
    platform: str, image: str, tmp_path: Path
) -> None:
    python = find_environment("platform", platform)
    if python is None:
        command = f"rpent-box build {platform} --launcher process"
        pytest.skip(f"{platform} has no environment: {command}")
    options = _options(find_platform(platform), python, tmp_path)
    by_process = _in_process(python, platform, options, tmp_path / "process.npz")
    contained = _in_container(image, platform, options, tmp_path / "container.npz")
    assert set(contained) == set(by_process)
    off = {
        name: float(np.abs(array.astype(float) - by_process[name].astype(float)).max())
        for name, array in contained.items()
        if name != "renderer" and array.tobytes() != by_process[name].tobytes()
    }
    drawn_by = [str(seen["renderer"]) for seen in (by_process, contained)]
    if off and drawn_by[0] != drawn_by[1]:
        pytest.skip(
            f"the process draws with {drawn_by[0]}, the container with {drawn_by[1]}: {off}"
        )
    assert off == {}, drawn_by


def _options(plugin: PlatformPlugin, python: Path, folder: Path) -> Any:
    """Return options with the assets that are here, else with what the tests lend or make."""
    if plugin.name != "robocasa" or missing_assets(plugin) is None:
        return options_here(plugin)
    # Made from what its packages bring, which this Python does not have.
    kitchen = folder / "kitchen"
    script = ROOT / "platforms/robocasa/tests/standin_kitchen.py"
    subprocess.run(
        [str(python), str(script), str(kitchen)],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S / 2,
    )
    return replace(plugin.options(), assets_path=str(kitchen))


def _in_process(python: Path, platform: str, options: Any, answer: Path) -> dict[str, np.ndarray]:
    done = subprocess.run(
        [str(python), *_words(platform, options, answer)],
        env={**os.environ, "PYTHONPATH": _support()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S / 2,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(np.load(answer))


def _in_container(image: str, platform: str, options: Any, answer: Path) -> dict[str, np.ndarray]:
    named = [Path(getattr(options, field)) for field in path_fields(type(options))]
    support = [Path(folder) for folder in _support().split(os.pathsep)]
    # As its own user, who may write the answer; start.sh takes a module, and fills the caches.
    script = 'cp -R /opt/rpent-box/warm/. /tmp/ && exec python3 "$@"'
    code, said = run_confined(
        _engine(),
        image,
        ["-c", script, "sh", *_words(platform, options, answer)],
        entrypoint="sh",
        uid=os.getuid(),
        read_only=[*support, *(path for path in named if path != Path())],
        writable=[answer.parent],
        environment={"PYTHONPATH": _support()},
        timeout_s=TIMEOUT_S / 2,
    )
    assert code == 0, said[-4000:]
    return dict(np.load(answer))


def _words(platform: str, options: Any, answer: Path) -> list[str]:
    scene = first_scene(find_platform(platform))
    chosen = (scene.suite, scene.task, scene.init_state, scene.seed)
    words = [one_chunk.__file__, platform, *(str(one) for one in chosen), str(answer)]
    return [*words, *to_arguments(options)]


def _support() -> str:
    """Return the folders of the programs that run there, for PYTHONPATH."""
    files = (one_chunk.__file__, platform_actions.__file__)
    return os.pathsep.join(str(Path(file).resolve().parent) for file in files)


def _engine() -> Engine:
    # Late: the Docker SDK is not installed where there is no engine.
    from rpent_box.launch.engine import Engine

    return Engine.connect()
