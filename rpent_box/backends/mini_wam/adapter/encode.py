# SPDX-License-Identifier: Apache-2.0
"""From a LIBERO observation to the network's input.

Frames stay upright, as the platform shows them. A frame whose sides are n times 128 is reduced to
128x128 by the mean of n x n pixels, rounded half up, in integers: the same numbers everywhere.

Frames of demonstrations are reduced by the same code, but they come out of a video (H.264, crf 12,
colours at half the resolution), and those of a platform as it drew them: the network was trained on
pixels that differ a little from those that it acts on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    images = np.empty((batch, len(CAMERA_ROLES), 3, IMAGE_SIZE, IMAGE_SIZE), np.uint8)
    proprio = np.empty((batch, sum(PROPRIO_SCHEMA.values())), np.float32)
    instruction = []
    for row, observation in enumerate(observations):
        for column, role in enumerate(CAMERA_ROLES):
            shrink(observation.images[role], role, out=images[row, column])
        proprio[row] = join_proprio(observation.proprio)
        instruction.append(encode_instruction(observation.instruction))
    return NetworkInput(
        images=images,
        proprio=normalise(proprio, manifest.statistics),
        instruction=np.stack(instruction),
    )


def shrink(image: Image, role: str, *, out: NDArray[np.uint8]) -> None:
    """Write the mean of each n x n block into `out`, uint8 [3, 128, 128], one plane per colour.

    Raises `BadObservation` for a frame that is not n times 128 pixels high and wide.
    """
    height, width = image.shape[:2]
    if height != width or height % IMAGE_SIZE or height == 0:
        raise BadObservation(
            f"camera {role} is {height}x{width}; mini-wam reduces square frames of "
            f"{IMAGE_SIZE}, {2 * IMAGE_SIZE}, {3 * IMAGE_SIZE}, … pixels a side",
            hint="LIBERO's own size is 256x256.",
        )
    factor = height // IMAGE_SIZE
    if factor == 1:
        out[...] = image.transpose(2, 0, 1)
        return
    # Rows first, which lie together in memory. Sums of up to 16 x 16 pixels fit 16 bits.
    wide = np.uint16 if factor <= 16 else np.uint32
    rows = image[::factor].astype(wide)
    for down in range(1, factor):
        rows += image[down::factor]
    # The sum of each value and its right neighbours, then each nth of them: numpy is quicker at
    # adding what lies together, even twice the numbers, than at stepping through three colours.
    line = rows.reshape(-1)
    reach = len(line) - 3 * (factor - 1)
    sums = line[:reach] + line[3 : 3 + reach]
    for right in range(2, factor):
        sums += line[3 * right : 3 * right + reach]
    total = _rounded_mean(sums, factor * factor)
    step = total.itemsize
    strides = (step, step * 3 * width, step * 3 * factor)
    np.copyto(out, np.ndarray(out.shape, total.dtype, total, 0, strides), casting="unsafe")


def _rounded_mean(sums: NDArray[Any], count: int) -> NDArray[Any]:
    """Turn sums of `count` values into their mean, rounded half up, in place."""
    sums += count // 2
    if count & (count - 1):
        sums //= count
    else:
        sums >>= count.bit_length() - 1  # numpy divides an order of magnitude more slowly
    return sums


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
