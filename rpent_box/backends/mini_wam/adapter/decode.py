# SPDX-License-Identifier: Apache-2.0
"""From the network's output to LIBERO's actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output
from rpent_box.contracts.observation import Actions, Image
from rpent_box.errors import BadActions

GRIPPER = 6
"""Column of the gripper: a logit in the network's output, -1 (open) or +1 (close) in LIBERO."""


def decode_libero(raw: NDArray[np.float32]) -> Actions:
    """Return float32 [horizon, 7] within [-1, 1] from the network's [horizon, 7].

    Raises `BadActions` for another shape, and for a value that is not finite. That comes first: the
    sign of a NaN logit would be an open gripper, and clipping would make an infinite push a full
    one.
    """
    require_output(raw, (1, GRIPPER + 1), backend="mini-wam")
    actions = np.clip(raw, -1.0, 1.0)
    actions[:, GRIPPER] = np.where(raw[:, GRIPPER] > 0, 1.0, -1.0)
    return np.ascontiguousarray(actions, np.float32)


def decode_future(raw: NDArray[np.float32]) -> Image:
    """Return uint8 RGB [64, 64, 3], upright, from values of 0 to 1. Raises `BadActions`."""
    if not np.isfinite(raw).all():
        raise BadActions("mini-wam computed a future frame that is not finite")
    return np.ascontiguousarray(np.rint(np.clip(raw, 0.0, 1.0) * 255.0), np.uint8)


def decode_value(raw: float) -> float:
    """Return the progress, 0 to 1. Raises `BadActions`."""
    if not np.isfinite(raw):
        raise BadActions(f"mini-wam computed a progress of {raw}")
    return min(max(float(raw), 0.0), 1.0)
