# SPDX-License-Identifier: Apache-2.0
"""Both images, built for real, and what a container of each can do: nothing but its work."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confined import CONFINED, look_around, run_confined

from rpent_box.errors import LaunchError
from rpent_box.launch import build
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.images import image_name, image_state
from rpent_box.launch.recipe import Kind, Target, find_checkout, find_recipe
from rpent_box.version import __version__

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

PROGRAMS = (Target("backend", "mini-wam"), Target("platform", "libero"))
NAMES = [(target.kind, target.name) for target in PROGRAMS]
GOLDEN = "rpent-box.golden"


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine with both images, built from this checkout."""
    try:
        check_engine(engine_socket())
    except LaunchError as error:
        pytest.skip(f"no Docker engine: {error.message}")
    from rpent_box.launch.engine import Engine

    build_images(PROGRAMS, say=lambda _text: None, environ=os.environ)
    return Engine.connect()


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_built_image_is_ready_and_says_what_it_is(engine: Engine, kind: Kind, name: str) -> None:
    assert image_state(engine, kind, name) == "ready"
    labels = engine.client.images.get(image_name(kind, name)).labels
    assert labels["org.opencontainers.image.version"] == __version__
    assert name in labels["org.opencontainers.image.title"]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_building_again_changes_nothing(engine: Engine, kind: Kind, name: str) -> None:
    before = engine.client.images.get(image_name(kind, name)).id
    build_images([Target(kind, name)], say=lambda _text: None, environ=os.environ)
    assert engine.client.images.get(image_name(kind, name)).id == before


def test_a_build_leaves_no_nameless_images_of_ours(engine: Engine) -> None:
    nameless = {"dangling": True, "label": "rpent-box.inputs"}
    assert engine.client.images.list(filters=nameless) == []


def test_a_simulator_that_is_not_as_recorded_fails_its_build_and_what_differs_is_named(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_name("platform", "libero")
    before = engine.client.images.get(image).id
    changed = _copy_of_the_checkout(tmp_path)
    golden = changed / "platforms/libero/rpent_box_libero/golden.json"
    recorded = json.loads(golden.read_bytes())
    recorded["state"][1] += 0.001
    golden.write_text(json.dumps(recorded))
    monkeypatch.setattr(build, "find_recipe", partial(find_recipe, checkout=changed))
    with pytest.raises(LaunchError, match="physics: the settled state is off by 0.001"):
        build_images([Target("platform", "libero")], say=lambda _text: None, environ=os.environ)
    assert engine.client.images.get(image).id == before


def test_a_simulators_image_says_that_it_was_compared_with_what_is_recorded(
    engine: Engine,
) -> None:
    assert engine.client.images.get(image_name("platform", "libero")).labels[GOLDEN] == "checked"


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_confined_container_of_any_user_can_only_do_its_work(
    engine: Engine, kind: Kind, name: str
) -> None:
    assert look_around(engine, image_name(kind, name)) == CONFINED


def test_the_worker_image_lists_its_options(engine: Engine) -> None:
    image = image_name("backend", "mini-wam")
    code, said = run_confined(engine, image, ["rpent_box.worker.serve", "mini-wam", "--help"])
    assert code == 0, said
    assert "--predict-future" in said


def test_the_worker_image_holds_neither_a_simulator_nor_a_training_framework(
    engine: Engine,
) -> None:
    look = (
        "import importlib.util as u; "
        "print([n for n in ('torch', 'mujoco', 'robosuite', 'docker', 'typer', 'onnxruntime') "
        "if u.find_spec(n)])"
    )
    image = image_name("backend", "mini-wam")
    assert run_confined(engine, image, ["-c", look], entrypoint="python3") == (
        0,
        "['onnxruntime']\n",
    )


@pytest.mark.simulator
def test_the_simulator_image_draws_a_frame_for_any_user_without_network(engine: Engine) -> None:
    draw = (
        "from rpent_box.plugins import find_platform; "
        "from rpent_box.sim.platform import Scene; "
        "plugin = find_platform('libero'); platform = plugin.open(plugin.options()); "
        "shown = platform.reset(Scene(suite='libero_spatial', task=0, init_state=0, seed=7)); "
        "frame = shown.images['primary']; "
        "print(frame.shape, frame.dtype, frame.std() > 20); platform.close()"
    )
    image = image_name("platform", "libero")
    code, said = run_confined(engine, image, ["-c", draw], entrypoint="python3")
    assert code == 0, said
    assert "(256, 256, 3) uint8 True" in said


def _copy_of_the_checkout(folder: Path) -> Path:
    """Return a copy of what an image is made from."""
    root = find_checkout()
    assert root is not None
    for name in ("pyproject.toml", "README.md", "LICENSE", "Dockerfile.sim", ".dockerignore"):
        shutil.copy2(root / name, folder / name)
    skipped = shutil.ignore_patterns("__pycache__", "*.whl", "tests")
    for name in ("rpent_box", "platforms", "images/base", "images/wheels"):
        shutil.copytree(root / name, folder / name, ignore=skipped)
    return folder
