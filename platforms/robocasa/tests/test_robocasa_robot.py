# SPDX-License-Identifier: Apache-2.0
"""The real robot in the scene that needs no assets: motions, frames, history, golden."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box_robocasa.golden import Golden, compare, measure, read_golden
from rpent_box_robocasa.observation import CAMERA_ROLES
from rpent_box_robocasa.process import prepared_process
from rpent_box_robocasa.roles import VIEWS

if TYPE_CHECKING:
    from rpent_box_robocasa.environment import RobocasaEnvironment

pytestmark = pytest.mark.simulator

ARM, BASE = -1.0, 1.0
SEED = 5


@pytest.fixture(scope="module")
def table(standins: str) -> Iterator[RobocasaEnvironment]:
    with prepared_process(standins):
        from rpent_box_robocasa.environment import RobocasaEnvironment
        from rpent_box_robocasa.table import make_table

        environment = RobocasaEnvironment(lambda kept: make_table(96, kept), image_size=96)
        yield environment
        environment.close()
        environment.close()


def row(mode: float = ARM, **columns: float) -> NDArray[np.float32]:
    names = ("x", "y", "z", "rx", "ry", "rz", "gripper", "forward", "left", "yaw", "torso")
    values = [columns.pop(name, 0.0) for name in names]
    assert not columns
    return np.float32([*values, mode])


def moved(
    table: RobocasaEnvironment, action: NDArray[np.float32], steps: int = 10
) -> dict[str, NDArray[np.float64]]:
    """Return by how much each measurement changes; rotations as quaternions after it."""
    before = table.observe(()).proprio
    for _ in range(steps):
        table.step(action)
    after = table.observe(()).proprio
    return {
        name: np.float64(after[name]) - (0 if "quaternion" in name else np.float64(before[name]))
        for name in after
    }


def turn_about(axis: int, quaternion_xyzw: NDArray[np.float64]) -> float:
    return float(2 * np.arctan2(quaternion_xyzw[axis], quaternion_xyzw[3]))


@pytest.mark.parametrize(("name", "axis"), [("x", 0), ("y", 1), ("z", 2)])
def test_the_hand_moves_along_the_axes_of_the_base(
    table: RobocasaEnvironment, name: str, axis: int
) -> None:
    table.reset(SEED)
    for sign in (-1.0, 1.0):
        went = moved(table, row(**{name: sign}))
        hand = went["base_to_eef_position"]
        assert sign * hand[axis] > 0.08
        assert np.abs(np.delete(hand, axis)).max() < 0.03
        assert np.abs(went["base_position"]).max() < 0.002
        moved(table, row(), steps=5)  # it comes to rest


def test_in_base_mode_a_step_is_added_to_the_last_target(table: RobocasaEnvironment) -> None:
    went = {}
    for mode in (ARM, BASE):
        table.reset(SEED)
        went[mode] = moved(table, row(mode, x=1.0))["base_to_eef_position"][0]
    assert went[ARM] < 0.15
    assert went[BASE] > 2 * went[ARM]


@pytest.mark.parametrize(("name", "axis"), [("rx", 0), ("ry", 1), ("rz", 2)])
def test_the_hand_turns_about_the_axes_of_the_base(
    table: RobocasaEnvironment, name: str, axis: int
) -> None:
    from scipy.spatial.transform import Rotation

    table.reset(SEED)
    before = Rotation.from_quat(table.observe(()).proprio["base_to_eef_quaternion_xyzw"])
    after = Rotation.from_quat(
        moved(table, row(**{name: 0.5}), steps=5)["base_to_eef_quaternion_xyzw"]
    )
    turned = (after * before.inv()).as_rotvec()
    assert turned[axis] > 0.15
    assert np.abs(np.delete(turned, axis)).max() < turned[axis] / 2


def test_plus_one_closes_the_gripper_and_minus_one_opens_it(table: RobocasaEnvironment) -> None:
    table.reset(SEED)
    for command, wanted in ((1.0, 0.0), (-1.0, 0.04)):
        for _ in range(12):
            table.step(row(gripper=command))
        fingers = table.observe(()).proprio["gripper_qpos"]
        assert fingers == pytest.approx([wanted, -wanted], abs=0.003)


@pytest.mark.parametrize("mode", [ARM, BASE])
def test_the_base_drives_left_turns_left_and_rises_in_either_mode(
    table: RobocasaEnvironment, mode: float
) -> None:
    table.reset(SEED)
    left = moved(table, row(mode, left=1.0))["base_position"]
    assert left[1] > 0.25
    assert abs(left[0]) < 0.01
    moved(table, row(mode), steps=5)  # it comes to rest
    backward = moved(table, row(mode, forward=-1.0))["base_position"]
    assert backward[0] < -0.25
    assert abs(backward[1]) < 0.01
    moved(table, row(mode), steps=5)
    assert moved(table, row(mode, torso=1.0))["base_position"][2] > 0.1
    assert turn_about(2, moved(table, row(mode, yaw=1.0))["base_quaternion_xyzw"]) > 0.5


def test_forward_is_where_the_base_points_now(table: RobocasaEnvironment) -> None:
    table.reset(SEED)
    for _ in range(25):
        table.step(row(BASE, forward=-1.0))  # away from the table
    for _ in range(24):
        table.step(row(BASE, yaw=1.0))
    yaw = turn_about(2, np.float64(table.observe(()).proprio["base_quaternion_xyzw"]))
    assert 1.2 < yaw < 2.0
    for _ in range(5):
        table.step(row(BASE))
    went = moved(table, row(BASE, forward=1.0))
    heading = turn_about(2, went["base_quaternion_xyzw"])
    # Friction takes a quarter of each joint's speed, so the smaller part of a slant is lost.
    assert went["base_position"][:2] @ [np.cos(heading), np.sin(heading)] > 0.25
    hand = moved(table, row(ARM, x=1.0))["base_to_eef_position"]
    assert hand[0] > 0.08


def test_frames_of_now_and_of_before_equal_those_of_the_stock_loop(
    table: RobocasaEnvironment,
) -> None:
    from rpent_box_robocasa.robot import robot_arguments
    from rpent_box_robocasa.table import CubeOnTable

    actions = np.float32(np.random.default_rng(0).uniform(-1, 1, (8, 12)))
    stock = CubeOnTable(**robot_arguments(96))
    try:
        random.seed(SEED)
        np.random.seed(SEED)
        stock.rng = np.random.default_rng(SEED)
        drawn = [stock.reset(), *(stock.step(np.float64(action))[0] for action in actions)]
    finally:
        stock.close()
    table.reset(SEED)
    looked_at = (0, 1, 8)
    for step in range(len(drawn)):
        if step:
            table.step(actions[step - 1])
        if step in looked_at:
            seen = table.observe(VIEWS)
            for role, (camera, ago) in VIEWS.items():
                wanted = drawn[max(0, step - ago)][f"{camera}_image"][::-1]
                assert seen.images[role].tobytes() == wanted.tobytes(), (step, role)
        for name in ("robot0_base_to_eef_pos", "robot0_base_to_eef_quat", "robot0_base_pos"):
            np.testing.assert_array_equal(table.raw[name], drawn[step][name])


def test_only_what_is_looked_at_is_drawn(table: RobocasaEnvironment) -> None:
    table.reset(SEED)
    drawn = []
    original = table.moments._draw
    table.moments._draw = lambda camera, moment: drawn.append(camera) or original(camera, moment)
    try:
        for _ in range(8):
            table.step(row(x=0.5))
        assert drawn == []
        table.observe(("wrist", "wrist_2_steps_ago", "agentview_left_6_steps_ago"))
        table.observe(("wrist",))
        assert sorted(drawn) == ["robot0_agentview_left", *["robot0_eye_in_hand"] * 2]
    finally:
        del table.moments._draw


def test_looking_changes_nothing(table: RobocasaEnvironment) -> None:
    ends = []
    for look in (False, True):
        table.reset(SEED)
        for step in range(6):
            table.step(row(x=0.5, forward=0.5, gripper=1.0))
            if look and step % 3 == 1:
                table.observe(VIEWS)
        ends.append(table.state().numbers)
    np.testing.assert_array_equal(*ends)


def test_the_same_seed_gives_the_same_scene_and_another_another(
    table: RobocasaEnvironment,
) -> None:
    seen = []
    for seed in (SEED, SEED + 1, SEED):
        table.reset(seed)
        seen.append((table.state().numbers, table.observe(VIEWS).images["wrist"]))
    np.testing.assert_array_equal(seen[0][0], seen[2][0])
    assert seen[0][1].tobytes() == seen[2][1].tobytes()
    assert not np.array_equal(seen[0][0], seen[1][0])


def test_frames_are_upright_the_robot_below_and_the_wall_above(
    table: RobocasaEnvironment,
) -> None:
    table.reset(SEED)
    images = table.observe(VIEWS).images
    for role in ("agentview_left", "agentview_right"):
        frame = images[role].astype(float)
        assert frame.flags.c_contiguous
        assert frame[:20].mean() < frame[-20:].mean() - 20, "a dark wall above a light floor"
    # The robot's arm, white, is right of the middle for the camera on its left.
    white = {role: np.argwhere(images[role].min(axis=2) > 225)[:, 1].mean() for role in images}
    assert white["agentview_left"] > white["agentview_right"]


def test_physics_and_renderer_are_what_they_were(standins: str) -> None:
    with prepared_process(standins):
        got = measure()
    assert compare(read_golden(), got) == []
    drifted = Golden(
        state=[number + 1e-6 for number in got.state],
        moved=got.moved,
        frames_sha256=dict.fromkeys(CAMERA_ROLES.values(), "another"),
        coarse_frames={
            role: np.array(frame)[::-1].tolist() for role, frame in got.coarse_frames.items()
        },
    )
    findings = compare(drifted, got)
    assert [finding.part for finding in findings] == ["physics", *["renderer"] * 3]
    assert "1e-06" in findings[0].message
