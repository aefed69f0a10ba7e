# SPDX-License-Identifier: Apache-2.0
"""From robosuite's observation to ours: names, orientation and types. Needs no simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image, Vector

CAMERA_ROLES = {
    "robot0_agentview_left": "agentview_left",
    "robot0_agentview_right": "agentview_right",
    "robot0_eye_in_hand": "wrist",
}
"""RoboCasa's camera → the role it plays."""

PROPRIO_SCHEMA = {
    "base_position": 3,
    "base_quaternion_xyzw": 4,
    "base_to_eef_position": 3,
    "base_to_eef_quaternion_xyzw": 4,
    "gripper_qpos": 2,
}
"""What RoboCasa's datasets hold of a Panda on an Omron base: metres, unit quaternions."""

_PROPRIO = {
    "robot0_base_pos": "base_position",
    "robot0_base_quat": "base_quaternion_xyzw",
    "robot0_base_to_eef_pos": "base_to_eef_position",
    "robot0_base_to_eef_quat": "base_to_eef_quaternion_xyzw",
    "robot0_gripper_qpos": "gripper_qpos",
}


def proprio_from(raw: Mapping[str, NDArray[Any]]) -> dict[str, Vector]:
    """Return the five state vectors of `raw`, robosuite's observation, in our names."""
    return {ours: vector(raw[theirs]) for theirs, ours in _PROPRIO.items()}


def upright(frame: NDArray[np.uint8]) -> Image:
    """Return a copy of `frame` with its rows reversed: OpenGL counts them from the bottom.

    Left and right stay as they are.
    """
    return np.ascontiguousarray(frame[::-1])


def vector(values: NDArray[Any]) -> Vector:
    """Return `values` as float32 [n]."""
    return np.atleast_1d(np.asarray(values, dtype=np.float32))
