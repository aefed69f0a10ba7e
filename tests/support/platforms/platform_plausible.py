# SPDX-License-Identifier: Apache-2.0
"""What the robot's measurements can be: names, units and ranges."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rpent_box.contracts.observation import Vector

Check = Callable[[Vector], bool]

ROOM_M = 30.0
"""A kitchen is a few metres across; millimetres taken for metres are far outside."""
ARM_M = 2.0
GRIPPER_OPENS_M = 0.1
FAST = 50.0
"""Metres or radians per second that no arm of these reaches."""
SLACK = 1e-3
"""What rounding and an elastic joint add to a range."""


def _within(limit: float) -> Check:
    return lambda vector: bool((np.abs(vector) <= limit + SLACK).all())


def _unit(vector: Vector) -> bool:
    return abs(float(np.linalg.norm(vector)) - 1) < SLACK


def _share(vector: Vector) -> bool:
    return bool(((vector >= -SLACK) & (vector <= 1 + SLACK)).all())


def _pose(vector: Vector) -> bool:
    return _within(ROOM_M)(vector[:3]) and _unit(vector[3:])


def _aloha_joints(vector: Vector) -> bool:
    grippers = [6, 13]
    return _within(2 * math.pi)(np.delete(vector, grippers)) and _share(vector[grippers])


PLAUSIBLE: dict[str, Check] = {
    "eef_position": _within(ROOM_M),
    "eef_quaternion_xyzw": _unit,
    "gripper_qpos": _within(GRIPPER_OPENS_M),
    "gripper_qvel": _within(FAST),
    "joint_positions": _within(2 * math.pi),
    "joint_velocities": _within(FAST),
    "joint_targets": _aloha_joints,
    "left_eef_pose": _pose,
    "right_eef_pose": _pose,
    "left_tcp_pose": _pose,
    "right_tcp_pose": _pose,
    "left_gripper": _share,
    "right_gripper": _share,
    "base_position": _within(ROOM_M),
    "base_quaternion_xyzw": _unit,
    "base_to_eef_position": _within(ARM_M),
    "base_to_eef_quaternion_xyzw": _unit,
}
"""Every name in use → whether a vector can be that."""


def implausible(proprio: dict[str, Vector]) -> list[str]:
    """Return the names of what cannot be, and of what nobody knows the meaning of."""
    found = []
    for name, vector in proprio.items():
        check = PLAUSIBLE.get(name)
        if check is None:
            found.append(f"{name}: no such name is in use")
        elif not np.isfinite(vector).all() or not check(vector):
            found.append(f"{name}: {vector.tolist()}")
    return found
