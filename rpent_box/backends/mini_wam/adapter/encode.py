# SPDX-License-Identifier: Apache-2.0
"""From a LIBERO observation to the network's input.

Frames stay upright, as the platform shows them. A frame whose sides are n times 128 is reduced to
128x128 by the mean of n x n pixels, rounded half up, in integers: the same numbers everywhere, and
the ones that the network was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.pair import NetworkInput
from rpent_box.backends.mini_wam.manifest import Manifest, Statistics
from rpent_box.backends.mini_wam.text import encode_instruction
from rpent_box.contracts.observation import Image, Observation, Vector
from rpent_box.errors import BadObservation

CAMERA_ROLES = ("primary", "wrist")
PROPRIO_SCHEMA = {"eef_position": 3, "eef_quaternion_xyzw": 4, "gripper_qpos": 2}
IMAGE_SIZE = 128


def encode_libero(observations: Sequence[Observation], manifest: Manifest) -> NetworkInput:
    """Return one batch. Raises `BadObservation` for frames of a size that cannot be reduced."""
    batch = len(observations)
    images = np.empty((batch, len(CAMERA_ROLES), IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
    proprio = np.empty((batch, sum(PROPRIO_SCHEMA.values())), np.float32)
    instruction = []
    for row, observation in enumerate(observations):
        for column, role in enumerate(CAMERA_ROLES):
            images[row, column] = shrink(observation.images[role], role)
        proprio[row] = join_proprio(observation.proprio)
        instruction.append(encode_instruction(observation.instruction))
    return NetworkInput(
        images=images,
        proprio=normalise(proprio, manifest.statistics),
        instruction=np.stack(instruction),
    )


def shrink(image: Image, role: str) -> Image:
    """Return uint8 [128, 128, 3]: the mean of each n x n block. Raises `BadObservation`."""
    height, width = image.shape[:2]
    if height != width or height % IMAGE_SIZE or height == 0:
        raise BadObservation(
            f"camera {role} is {height}x{width}; mini-wam reduces square frames of "
            f"{IMAGE_SIZE}, {2 * IMAGE_SIZE}, {3 * IMAGE_SIZE}, … pixels a side",
            hint="LIBERO's own size is 256x256.",
        )
    factor = height // IMAGE_SIZE
    if factor == 1:
        return image
    # Rows first, which lie together in memory. Sums of up to 16 x 16 pixels fit 16 bits.
    wide = np.uint16 if factor <= 16 else np.uint32
    rows = np.zeros((IMAGE_SIZE, height, 3), wide)
    for down in range(factor):
        rows += image[down::factor]
    columns = rows.reshape(IMAGE_SIZE, IMAGE_SIZE, factor, 3)
    total = columns[:, :, 0].copy()
    for right in range(1, factor):
        total += columns[:, :, right]
    mean: Image = ((total + factor * factor // 2) // (factor * factor)).astype(np.uint8)
    return mean


def join_proprio(proprio: dict[str, Vector]) -> Vector:
    """Return float32 [9] in the order of `PROPRIO_SCHEMA`, the quaternion with x >= 0.

    A quaternion and its negative are one rotation. LIBERO's hand points down, so x is near 1 or
    -1 and its sign tells the two apart; elsewhere the sign would jump near x = 0.
    """
    quaternion = proprio["eef_quaternion_xyzw"]
    upright = -quaternion if quaternion[0] < 0 else quaternion
    return np.concatenate([proprio["eef_position"], upright, proprio["gripper_qpos"]])


def normalise(proprio: NDArray[np.float32], statistics: Statistics) -> NDArray[np.float32]:
    """Return (proprio - mean) / deviation, float32 [batch, 9]."""
    mean = np.asarray(statistics.proprio_mean, np.float32)
    deviation = np.asarray(statistics.proprio_deviation, np.float32)
    return (proprio - mean) / deviation
