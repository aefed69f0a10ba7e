# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from rpent_box.backends.rldx.adapter import ADAPTERS
from rpent_box.backends.rldx.modality import Modality
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.observation import Observation
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA, ROBOCASA_12
from rpent_box.errors import BadActions, ContractError
from rpent_box_robocasa.control import PARTS, check_actions, check_control
from rpent_box_robocasa.observation import PROPRIO_SCHEMA, proprio_from, upright
from rpent_box_robocasa.roles import VIEWS

RAW = {
    "robot0_base_pos": np.array([1.0, 2.0, 0.7]),
    "robot0_base_quat": np.array([0.0, 0.0, 0.6, 0.8]),
    "robot0_base_to_eef_pos": np.array([0.4, 0.0, 0.5]),
    "robot0_base_to_eef_quat": np.array([1.0, 0.0, 0.0, 0.0]),
    "robot0_gripper_qpos": np.array([0.04, -0.04]),
    "robot0_joint_pos": np.zeros(7),
}
"""Names and shapes as robosuite 1.5.2 gives them for a PandaOmron."""


def test_the_five_state_vectors_keep_their_values_in_float32() -> None:
    proprio = proprio_from(RAW)
    assert {name: len(vector) for name, vector in proprio.items()} == PROPRIO_SCHEMA
    assert all(vector.dtype == np.float32 for vector in proprio.values())
    np.testing.assert_array_equal(
        proprio["base_quaternion_xyzw"], np.float32(RAW["robot0_base_quat"])
    )


def test_a_frame_is_turned_upright_and_not_mirrored() -> None:
    raw = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    frame = upright(raw)
    assert frame.flags.c_contiguous
    np.testing.assert_array_equal(frame, raw[::-1])


def test_rldx_reads_what_is_shown_oldest_frame_first() -> None:
    shades = {role: place for place, role in enumerate(VIEWS)}
    seen = Observation(
        images={role: np.full((256, 256, 3), shade, np.uint8) for role, shade in shades.items()},
        proprio=proprio_from(RAW),
        instruction="open the drawer",
    )
    modality = Modality(
        cameras=("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand"),
        steps_ago=(6, 4, 2, 0),
        states=("gripper_qpos", "base_position", "base_rotation"),
        language="annotation.human.task_description",
        actions=("end_effector_position",),
        horizon=16,
    )
    native = ADAPTERS["robocasa"].encode(seen, modality)
    video = native["video"]["robot0_eye_in_hand"]
    assert video.shape == (1, 4, 256, 256, 3)
    wanted = [shades[f"wrist_{steps}_steps_ago"] for steps in (6, 4, 2)] + [shades["wrist"]]
    assert video[0, :, 0, 0, 0].tolist() == wanted
    assert native["state"]["base_rotation"].shape == (1, 1, 4)


def test_robosuites_controllers_cover_the_columns_and_leave_the_mode() -> None:
    covered = [column for start, end in PARTS.values() for column in range(start, end)]
    assert covered == list(range(ROBOCASA_12.action_dim - 1))
    assert ROBOCASA_12.fields[-1].name == "control_mode"
    assert ROBOCASA_12.fields[6].name == "gripper_close"
    assert ROBOCASA_12.fields[10].name == "base_motion_torso"


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((1, 12)), "float64; robocasa takes float32"),
        (np.zeros((1, 7), np.float32), r"\[1, 7\]; robocasa takes \[steps, 12\]"),
        (np.zeros((0, 12), np.float32), r"\[0, 12\]"),
        (np.zeros(12, np.float32), r"\[12\]"),
        (np.float32([[0] * 9 + [np.nan, 0, 0]]), "base_motion_yaw is nan in step 0"),
    ],
)
def test_malformed_actions_are_refused(actions: np.ndarray, message: str) -> None:
    with pytest.raises(BadActions, match=message):
        check_actions(actions)


def test_another_robots_control_is_refused() -> None:
    check_control(control_spec(ROBOCASA_12))
    with pytest.raises(ContractError, match="robocasa moves in robocasa.osc_pose_base"):
        check_control(control_spec(LIBERO_OSC_DELTA))
