# SPDX-License-Identifier: Apache-2.0
"""From what RoboTwin measures and draws to our names and types. Needs no simulator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rpent_box.contracts.observation import Image, Observation, Vector

CAMERAS = {"head": "head_camera", "left_wrist": "left_camera", "right_wrist": "right_camera"}
"""Camera role → RoboTwin's camera. Its fourth one, `front_camera`, shows no model anything."""
CAMERA_ROLES: tuple[str, ...] = tuple(CAMERAS)
IMAGE_SIZE = (240, 320)
"""Height and width that both of RoboTwin's configurations draw with."""

PROPRIO_SCHEMA = {
    "left_eef_pose": 7,
    "left_gripper": 1,
    "right_eef_pose": 7,
    "right_gripper": 1,
    "left_tcp_pose": 7,
    "right_tcp_pose": 7,
    "joint_targets": 14,
    "joint_positions": 12,
}
"""Metres, radians, world frame. `joint_targets` is what the controllers are set to, left arm 6,
left gripper, right arm 6, right gripper; `joint_positions` is measured, both arms without grippers.
The hand's pose (`eef`) is 0.12 m behind the gripper's centre (`tcp`)."""

_PROPRIO = {
    "qpos_target14": "joint_targets",
    "arm_qpos_real12": "joint_positions",
    **{name: name for name in PROPRIO_SCHEMA if not name.startswith("joint_")},
}


def observation_from(
    images: Mapping[str, Image], robot_state: Mapping[str, ArrayLike], instruction: str
) -> Observation:
    """Return what was drawn and measured in our names.

    `images` by camera role, passed on as they are; `robot_state` as `robot_state.read` names it,
    where a number becomes [1] and a key that we do not know is dropped.
    """
    proprio = {
        ours: vector(robot_state[theirs])
        for theirs, ours in _PROPRIO.items()
        if theirs in robot_state
    }
    return Observation(images=dict(images), proprio=proprio, instruction=instruction)


def frame(rgba: NDArray[np.float32]) -> Image:
    """Return SAPIEN's float [height, width, 4], rows from the top, as uint8 RGB of our own.

    Rounds towards zero, as RoboTwin does with the frames that its demonstrations hold.
    """
    return np.ascontiguousarray((rgba * 255).clip(0, 255).astype(np.uint8)[:, :, :3])


def vector(values: ArrayLike) -> Vector:
    """Return `values` as float32 [n]."""
    return np.atleast_1d(np.asarray(values, dtype=np.float32))
