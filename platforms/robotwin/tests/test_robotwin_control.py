# SPDX-License-Identifier: Apache-2.0
"""What the controllers take, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA, ROBOTWIN_EEF16, ROBOTWIN_QPOS14
from rpent_box.errors import BadActions, IncompatibleWorker
from rpent_box_robotwin.control import (
    QUATERNION_TOLERANCE,
    ActionType,
    action_type,
    check_actions,
    executable,
)

JOINTS = np.zeros((3, 14), dtype=np.float32)
HANDS = np.tile(np.float32([0, 0, 1, 1, 0, 0, 0, 1]), (3, 2))


def test_a_control_is_known_by_its_action_space() -> None:
    assert action_type(control_spec(ROBOTWIN_QPOS14)) == "qpos"
    assert action_type(control_spec(ROBOTWIN_EEF16)) == "ee"
    with pytest.raises(IncompatibleWorker, match=r"libero\.osc_pose\.delta.*moves in robotwin\."):
        action_type(control_spec(LIBERO_OSC_DELTA))
    for change in ({"action_type": "ee"}, {"action_schema": ("one",)}, {"embodiment": "another"}):
        with pytest.raises(IncompatibleWorker):
            action_type(replace(control_spec(ROBOTWIN_QPOS14), **change))


@pytest.mark.parametrize(("actions", "kind"), [(JOINTS, "qpos"), (HANDS, "ee")])
def test_sound_actions_pass(actions: np.ndarray, kind: ActionType) -> None:
    check_actions(actions, kind)


@pytest.mark.parametrize(
    ("actions", "kind", "message"),
    [
        (JOINTS.astype(np.float64), "qpos", "are float64; robotwin takes float32"),
        (JOINTS, "ee", r"shape \[3, 14\].*takes \[steps, 16\]: left_x, "),
        (HANDS, "qpos", r"shape \[3, 16\].*takes \[steps, 14\]: joint_action_0, "),
        (JOINTS[0], "qpos", r"shape \[14\]"),
        (JOINTS[:0], "qpos", r"shape \[0, 14\]"),
    ],
)
def test_another_shape_or_type_is_refused(
    actions: np.ndarray, kind: ActionType, message: str
) -> None:
    with pytest.raises(BadActions, match=message):
        check_actions(actions, kind)


def test_a_number_that_is_none_is_named() -> None:
    spoiled = HANDS.copy()
    spoiled[1, 9] = np.inf
    with pytest.raises(BadActions, match="right_y is inf in step 1; nothing was executed"):
        check_actions(spoiled, "ee")


@pytest.mark.parametrize(("side", "first"), [("left", 3), ("right", 11)])
def test_a_quaternion_must_have_unit_length(side: str, first: int) -> None:
    spoiled = HANDS.copy()
    spoiled[2, first : first + 4] = 0
    with pytest.raises(BadActions, match=rf"{side}_quaternion has length 0 in step 2"):
        check_actions(spoiled, "ee")
    spoiled[2, first] = 1 + 2 * QUATERNION_TOLERANCE
    with pytest.raises(BadActions, match=rf"{side}_quaternion has length 1\.02 in step 2"):
        check_actions(spoiled, "ee")


def test_a_nearly_unit_quaternion_is_executed_as_its_rotation() -> None:
    rough = HANDS.copy()
    rough[0, 3:7] = np.float32([0.5, -0.5, 0.5, 0.5]) * np.float32(1 + QUATERNION_TOLERANCE / 2)
    check_actions(rough, "ee")
    rows = executable(rough, "ee")
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows[0, 3:7], [0.5, -0.5, 0.5, 0.5], atol=1e-7)
    np.testing.assert_array_equal(rows[:, [0, 1, 2, 7]], rough[:, [0, 1, 2, 7]])


def test_joint_commands_are_executed_as_they_are() -> None:
    commands = np.random.default_rng(0).normal(size=(4, 14)).astype(np.float32)
    np.testing.assert_array_equal(executable(commands, "qpos"), commands)
