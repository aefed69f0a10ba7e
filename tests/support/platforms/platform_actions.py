# SPDX-License-Identifier: Apache-2.0
"""Small motions that every arm can make from where it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.control import ControlSpec
from rpent_box.contracts.observation import Actions, Observation
from rpent_box.contracts.spaces import KNOWN_SPACES, ROBOTWIN_EEF16, ROBOTWIN_QPOS14

JOINT_STEP_RAD = 0.02
HAND_STEP_M = 0.004
DELTA = 0.3
"""Of the range of a space that moves relative to where the arm is."""


def small_actions(control: ControlSpec, seen: Observation, steps: int) -> Actions:
    """Return float32 [steps, action_dim]: each row a little beyond the one before it.

    In a space of absolute targets they begin where `seen` says that the robot is.
    """
    drawn = np.random.default_rng(5).uniform(-1, 1, (steps, control.action_dim))
    if control.action_space == ROBOTWIN_QPOS14.id:
        rows = _joint_targets(seen, drawn)
    elif control.action_space == ROBOTWIN_EEF16.id:
        rows = _hand_poses(seen, drawn)
    else:
        rows = _deltas(control, drawn)
    return np.ascontiguousarray(rows, dtype=np.float32)


def stay(control: ControlSpec) -> Actions:
    """Return one well-formed row that was not chosen for any scene: float32 [1, action_dim]."""
    row = np.zeros((1, control.action_dim), np.float32)
    if control.action_space == ROBOTWIN_EEF16.id:
        row[0, [3, 11]] = 1.0  # a quaternion of zeros is no rotation
    return row


def _deltas(control: ControlSpec, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    space = KNOWN_SPACES.get(control.action_space)
    if space is None:
        return DELTA * drawn
    low = np.array([max(field.low, -1.0) for field in space.fields])
    high = np.array([min(field.high, 1.0) for field in space.fields])
    return (low + high) / 2 + DELTA * drawn * (high - low) / 2


def _joint_targets(seen: Observation, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = seen.proprio["joint_targets"] + np.cumsum(JOINT_STEP_RAD * drawn, axis=0)
    for gripper in (6, 13):
        rows[:, gripper] = np.clip(rows[:, gripper], 0, 1)
    return rows


def _hand_poses(seen: Observation, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    names = ("left_eef_pose", "left_gripper", "right_eef_pose", "right_gripper")
    start = np.concatenate([seen.proprio[name] for name in names])
    moves = np.zeros_like(drawn)
    for column in (*range(3), *range(8, 11)):
        moves[:, column] = HAND_STEP_M * drawn[:, column]
    return start + np.cumsum(moves, axis=0)
