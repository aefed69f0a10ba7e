# SPDX-License-Identifier: Apache-2.0
"""From six numbers to a rotation vector.

The six are the first two columns of a rotation matrix, as a network gives them: not quite of unit
length and not quite at right angles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpent_box.errors import BadActions

SHORTEST = 1e-8
"""A column shorter than this points nowhere."""
NARROWEST = 1e-6
"""Two columns whose sine is below this span no plane: what is left is float32's rounding."""
_SMALL_ANGLE = 1e-3


def rotation_vectors(rot6d: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return float32 [steps, 3] in radians, at most pi long, from finite numbers [steps, 6].

    Raises `BadActions` where the two columns are too short or parallel: any rotation would fit.
    """
    return _vectors(_quaternions(_matrices(rot6d))).astype(np.float32)


def _matrices(rot6d: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return [steps, 3, 3], each orthonormal (Gram-Schmidt), in the precision of the training."""
    first, second = rot6d[:, :3], rot6d[:, 3:6]
    first = first / _lengths(first, "first column is", SHORTEST)
    along = np.sum(second * first, axis=1, keepdims=True)
    lengths = _lengths(second, "second column is", SHORTEST)
    rest = second - along * first
    _lengths(rest / lengths, "columns are parallel: their sine is", NARROWEST)
    rest = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    third = np.cross(first, rest)
    return np.stack([first, rest, third], axis=2).astype(np.float64)


def _lengths(columns: NDArray[np.float32], what: str, least: float) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(columns, axis=1, keepdims=True)
    if (lengths < least).any():
        step = int(np.argmax(lengths < least))
        raise BadActions(
            f"cosmos3's model returned no rotation in step {step}: its {what} "
            f"{float(lengths[step, 0]):.3g}; nothing was executed"
        )
    return lengths


def _quaternions(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit [steps, 4] as x, y, z, w with w >= 0, from the largest of the four (Shepperd)."""
    quaternions = np.empty((len(matrices), 4))
    for step, matrix in enumerate(matrices):
        trace = float(np.trace(matrix))
        largest = int(np.argmax([*np.diag(matrix), trace]))
        if largest == 3:
            x, y, z = (matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0],
                       matrix[1, 0] - matrix[0, 1])  # fmt: skip
            quaternions[step] = (x, y, z, 1.0 + trace)
        else:
            i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
            quaternions[step, i] = 1.0 - trace + 2.0 * matrix[i, i]
            quaternions[step, j] = matrix[j, i] + matrix[i, j]
            quaternions[step, k] = matrix[k, i] + matrix[i, k]
            quaternions[step, 3] = matrix[k, j] - matrix[j, k]
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    quaternions[quaternions[:, 3] < 0] *= -1.0
    return quaternions


def _vectors(quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    sines = np.linalg.norm(quaternions[:, :3], axis=1, keepdims=True)
    angles = 2.0 * np.arctan2(sines, quaternions[:, 3:])
    small = angles < _SMALL_ANGLE
    # angle / sin(angle / 2), by its series where both go to zero.
    scales = np.where(
        small, 2.0 + angles**2 / 12.0 + 7.0 * angles**4 / 2880.0, angles / np.where(small, 1, sines)
    )
    vectors: NDArray[np.float64] = scales * quaternions[:, :3]
    return vectors
