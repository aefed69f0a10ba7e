# SPDX-License-Identifier: Apache-2.0
"""Noise on actions, so that demonstrations hold the mistakes of a student and the way back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CALM_SHARE = 0.30
DRIFT_SHARE = 0.52
WRONG_GRIPPER_SHARE = 0.04


def disturb(rng: np.random.Generator, actions: Array, level: float) -> tuple[Array, bool]:
    """Return disturbed `actions` [steps, 7], and whether they still lead where they should.

    A chunk is calm, drifts by a constant bias, or is pushed hard; white noise comes on top. A bias
    that lasts for the chunk is what an open-loop student's errors look like; white noise averages
    out. `level` scales it all, 0 leaves the actions alone.
    """
    if level <= 0:
        return actions, True
    kind = rng.random()
    calm = kind < CALM_SHARE
    bias = np.zeros(6)
    if CALM_SHARE <= kind < CALM_SHARE + DRIFT_SHARE:
        bias = np.concatenate([rng.normal(0, 0.25, 3), rng.normal(0, 0.08, 3)])
    elif not calm:
        bias = np.concatenate([rng.uniform(-0.7, 0.7, 3), rng.normal(0, 0.15, 3)])
    moved = actions.copy()
    moved[:, :6] += level * (bias + rng.normal(0, 0.08, (len(actions), 6)))
    if rng.random() < WRONG_GRIPPER_SHARE * level:
        moved[:, 6] *= -1
        calm = False
    return np.clip(moved, -1.0, 1.0), calm
