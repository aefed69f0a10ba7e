# SPDX-License-Identifier: Apache-2.0
"""Rotations as the models were trained on them, branches included."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

FloatT = TypeVar("FloatT", np.float32, np.float64)


def axis_angle_of(quaternion_xyzw: NDArray[FloatT]) -> NDArray[FloatT]:
    """Return the rotation vector [3], in radians, of a quaternion [4] in the order x, y, z, w.

    `xyz * 2 acos(w) / sqrt(1 - w^2)` with w limited to [-1, 1], and zeros where the denominator is
    zero. The sign of w is kept: for w < 0 the angle exceeds pi, which is not the shortest rotation
    and is what robosuite, and so the training data, has (robosuite/utils/transform_utils.py,
    `quat2axisangle`). The input is not normalised and not changed.
    """
    w = float(np.clip(quaternion_xyzw[3], -1.0, 1.0))
    denominator = math.sqrt(1.0 - w * w)
    if math.isclose(denominator, 0.0):
        return np.zeros(3, quaternion_xyzw.dtype)
    return (quaternion_xyzw[:3] * (2.0 * math.acos(w)) / denominator).astype(quaternion_xyzw.dtype)
