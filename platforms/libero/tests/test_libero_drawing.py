# SPDX-License-Identifier: Apache-2.0
"""Frames against robosuite's own drawing of the same moment, to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite

pytestmark = pytest.mark.simulator

CAMERAS = ("agentview", "robot0_eye_in_hand", "frontview", "birdview", "sideview")
SIZES = ((64, 64), (96, 48))


@pytest.fixture(scope="module")
def stove() -> Iterator[Any]:
    """A scene with a stove, whose plate reflects."""
    yield from environment_of("libero_goal", 3)


@pytest.fixture(autouse=True)
def _current(stove: Any) -> None:
    # Each scene has a GL context of its own, and the last one that was made is drawn into.
    stove.problem.sim._render_context_offscreen.gl_ctx.make_current()


def environment_of(suite: str, task: int) -> Iterator[Any]:
    with prepared_process():
        from rpent_box_libero.environment import LiberoEnvironment
        from rpent_box_libero.tasks import find_task

        environment = LiberoEnvironment(
            find_task(suite, find_suite(suite).tasks[task]), image_size=64
        )
        environment.reset(seed=7, settle_steps=0)
        yield environment
        environment.close()


def test_frames_equal_robosuites_wherever_the_arm_is(
    stove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out, reflected = watch(monkeypatch)
    for pose in arm_poses(stove, 6):
        put_arm(stove, pose)
        for camera in CAMERAS:
            for size in SIZES:
                assert ours(stove, camera, size) == robosuites(stove, camera, size), camera
    # Or the comparison would have been one of robosuite's drawing with itself.
    assert max(left_out) > 40
    assert set(reflected) == {True, False}


def test_a_scene_without_a_mirror_equals_robosuites(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out, reflected = watch(monkeypatch)
    for environment in environment_of("libero_object", 0):
        for pose in arm_poses(environment, 2):
            put_arm(environment, pose)
            for camera in CAMERAS:
                wanted = robosuites(environment, camera, (64, 64))
                assert ours(environment, camera, (64, 64)) == wanted, camera
    assert max(left_out) > 40
    assert set(reflected) == {False}


def test_everything_is_drawn_where_a_light_casts_shadows(
    stove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out, _ = watch(monkeypatch)
    lights = stove.problem.sim.model._model.light_castshadow
    before = lights.copy()
    without = ours(stove, "agentview", (64, 64))
    assert len(left_out) == 1
    lights[:] = 1
    try:
        shadowed = ours(stove, "agentview", (64, 64))
        assert shadowed == robosuites(stove, "agentview", (64, 64))
    finally:
        lights[:] = before
    assert shadowed != without
    assert len(left_out) == 1


def test_depth_is_left_to_robosuite(stove: Any) -> None:
    frame, depth = stove.problem.sim.render(64, 64, camera_name="agentview", depth=True)
    assert frame.tobytes() == ours(stove, "agentview", (64, 64))
    assert depth.shape == (64, 64)


def test_meshes_lie_within_the_boxes_that_stand_for_them(stove: Any) -> None:
    model = stove.problem.sim.model._model
    checked = 0
    for geom in np.flatnonzero(model.geom_type == 7):
        mesh = model.geom_dataid[geom]
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        corners = model.mesh_vert[first : first + count]
        middle, half = model.geom_aabb[geom].reshape(2, 3)
        assert np.all(np.abs(corners - middle) <= half * 1.01 + 1e-3)
        checked += 1
    assert checked > 50


def ours(environment: Any, camera: str, size: tuple[int, int]) -> bytes:
    frame = environment.problem.sim.render(*size, camera_name=camera)
    assert len(np.unique(frame)) > 20  # a picture, and not what lay in memory
    data: bytes = frame.tobytes()
    return data


def robosuites(environment: Any, camera: str, size: tuple[int, int]) -> bytes:
    sim = environment.problem.sim
    context = sim._render_context_offscreen
    assert "rpent_box" not in type(context).__module__
    context.render(*size, camera_id=sim.model.camera_name2id(camera))
    frame: bytes = context.read_pixels(*size).tobytes()
    return frame


def arm_poses(environment: Any, count: int) -> list[Any]:
    model = environment.problem.sim.model
    low, high = model.jnt_range[environment.problem.robots[0]._ref_joint_indexes].T
    return list(np.random.default_rng(0).uniform(low, high, (count, len(low))))


def put_arm(environment: Any, pose: Any) -> None:
    robot, sim = environment.problem.robots[0], environment.problem.sim
    sim.data.qpos[robot._ref_joint_pos_indexes] = pose
    sim.forward()


def watch(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[bool]]:
    """Return lists that grow with each frame: geoms left out, whether the reflection was drawn."""
    from rpent_box_libero import drawing

    left_out: list[int] = []
    reflected: list[bool] = []
    only, reflection = drawing._only, drawing._reflection

    def watched_only(geoms: Any, shown: Any) -> Any:
        left_out.append(int(np.sum(~shown)))
        return only(geoms, shown)

    def watched_reflection(scene: Any, *, wanted: bool) -> Any:
        reflected.append(wanted)
        return reflection(scene, wanted=wanted)

    monkeypatch.setattr(drawing, "_only", watched_only)
    monkeypatch.setattr(drawing, "_reflection", watched_reflection)
    return left_out, reflected
