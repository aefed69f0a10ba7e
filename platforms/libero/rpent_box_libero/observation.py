# SPDX-License-Identifier: Apache-2.0
"""From robosuite's observation to ours: names, orientation and types. Needs no simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image, Observation, Vector

CAMERA_ROLES = {"agentview": "primary", "robot0_eye_in_hand": "wrist"}
"""Robosuite's camera → the role it plays; another camera keeps its name."""

PROPRIO_SCHEMA = {
    "eef_position": 3,
    "eef_quaternion_xyzw": 4,
    "gripper_qpos": 2,
    "gripper_qvel": 2,
    "joint_positions": 7,
    "joint_velocities": 7,
}
"""What the pinned robosuite measures of a Panda: metres, radians, world frame."""

_PROPRIO = {
    "robot0_eef_pos": "eef_position",
    "robot0_eef_quat": "eef_quaternion_xyzw",
    "robot0_gripper_qpos": "gripper_qpos",
    "robot0_gripper_qvel": "gripper_qvel",
    "robot0_joint_pos": "joint_positions",
    "robot0_joint_vel": "joint_velocities",
    # Other builds of robosuite measure these two; the pinned one does not.
    "robot0_eef_vel_lin": "eef_linear_velocity",
    "robot0_eef_vel_ang": "eef_angular_velocity",
}
_IMAGE_SUFFIX = "_image"


def observation_from(
    raw: Mapping[str, NDArray[Any]],
    instruction: str,
    *,
    is_used: Callable[[str], bool] = lambda camera: True,
) -> Observation:
    """Return `raw`, robosuite's observation, in our names; keys that we do not know are dropped.

    So are the frames of cameras, by robosuite's name, that nobody looks through.
    """
    images = {
        _role(name): upright(frame)
        for name, frame in raw.items()
        if name.endswith(_IMAGE_SUFFIX) and is_used(name.removesuffix(_IMAGE_SUFFIX))
    }
    proprio = {ours: vector(raw[theirs]) for theirs, ours in _PROPRIO.items() if theirs in raw}
    return Observation(images=images, proprio=proprio, instruction=instruction)


def upright(frame: NDArray[np.uint8]) -> Image:
    """Return a copy of `frame` with its rows reversed: OpenGL counts them from the bottom.

    Left and right stay as they are.
    """
    return np.ascontiguousarray(frame[::-1])


def vector(values: NDArray[Any]) -> Vector:
    """Return `values` as float32 [n]."""
    return np.atleast_1d(np.asarray(values, dtype=np.float32))


def _role(name: str) -> str:
    camera = name.removesuffix(_IMAGE_SUFFIX)
    return CAMERA_ROLES.get(camera, camera)
