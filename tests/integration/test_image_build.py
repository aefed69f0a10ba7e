# SPDX-License-Identifier: Apache-2.0
"""Both images, built for real, and what a container of each can do: nothing but its work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rpent_box.errors import LaunchError
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.images import image_name, image_state
from rpent_box.launch.recipe import Kind, Target
from rpent_box.version import __version__

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

PROGRAMS = (Target("backend", "mini-wam"), Target("platform", "libero"))
NAMES = [(target.kind, target.name) for target in PROGRAMS]
UID = 54321
"""A user that no image knows."""
LOOK = """
import json, os, socket
def refused(action):
    try:
        action()
    except OSError as error:
        return error.errno
caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": int(caps[0], 16),
    "root": refused(lambda: open("/opt/probe", "w")),
    "network": refused(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    "stdin": os.read(0, 1).decode(),
}))
"""
EROFS, ENETUNREACH = 30, 101


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine with both images, built from this checkout."""
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
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


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_confined_container_of_any_user_can_only_do_its_work(
    engine: Engine, kind: Kind, name: str
) -> None:
    code, seen = _run(engine, image_name(kind, name), ["-c", LOOK], entrypoint="python3")
    assert code == 0, seen
    assert seen.strip().splitlines()[-1] == (
        f'{{"uid": {UID}, "capabilities": 0, "root": {EROFS}, "network": {ENETUNREACH}, '
        '"stdin": ""}'
    )


def test_the_worker_image_lists_its_options(engine: Engine) -> None:
    image = image_name("backend", "mini-wam")
    code, said = _run(engine, image, ["rpent_box.worker.serve", "mini-wam", "--help"])
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
    assert _run(engine, image, ["-c", look], entrypoint="python3") == (0, "['onnxruntime']\n")


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
    code, said = _run(engine, image, ["-c", draw], entrypoint="python3")
    assert code == 0, said
    assert "(256, 256, 3) uint8 True" in said


def _run(
    engine: Engine, image: str, command: list[str], *, entrypoint: str | None = None
) -> tuple[int, str]:
    """Run to the end, confined as the launcher does it; return exit code and output."""
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(
        image,
        read_only=True,
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        user=f"{UID}:{UID}",
        init=True,
        entrypoint=entrypoint,
    )
    container.with_command(command).with_tmpfs_mount("/tmp")
    with container:
        wrapped = container.get_wrapped_container()
        status = wrapped.wait(timeout=600)
        return int(status["StatusCode"]), wrapped.logs().decode()
