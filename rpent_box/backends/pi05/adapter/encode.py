# SPDX-License-Identifier: Apache-2.0
"""From a LIBERO observation to what openpi's LIBERO client sends (examples/libero/main.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.pi05.adapter.images import resize_with_pad, to_uint8
from rpent_box.backends.rotations import axis_angle_of
from rpent_box.contracts.observation import Image, Observation

CAMERA_ROLES = ("primary", "wrist")
PROPRIO_SCHEMA = {"eef_position": 3, "eef_quaternion_xyzw": 4, "gripper_qpos": 2}


class LiberoInput(Struct, frozen=True, kw_only=True):
    """One observation for openpi's LIBERO policy. Holds no normalisation."""

    image: Image
    """uint8 RGB [224, 224, 3], turned by 180 degrees from the simulator's own rows."""
    wrist_image: Image
    """The same of the hand's camera."""
    state: NDArray[np.floating[Any]]
    """[8]: eef position (metres), axis-angle (radians), both fingers (metres)."""
    prompt: str
    """The instruction as it came; openpi trims it, and turns `_` and line ends into spaces."""


def encode_libero(observation: Observation, _: None) -> LiberoInput:
    """Return what the policy takes. Raises `BadObservation` for a frame that cannot be scaled."""
    images, proprio = observation.images, observation.proprio
    state = np.concatenate(
        (
            proprio["eef_position"],
            axis_angle_of(proprio["eef_quaternion_xyzw"]),
            proprio["gripper_qpos"],
        )
    )
    return LiberoInput(
        image=prepare_image(images["primary"], "primary"),
        wrist_image=prepare_image(images["wrist"], "wrist"),
        state=state,
        prompt=observation.instruction,
    )


def prepare_image(upright: Image, role: str) -> Image:
    """Return uint8 [224, 224, 3] as the model saw frames in training.

    openpi turns LIBERO's raw frame by 180 degrees; an upright frame is that raw frame with its
    rows reversed, so that only left and right are left to swap.
    """
    return resize_with_pad(to_uint8(np.ascontiguousarray(upright[:, ::-1])), role)
