# SPDX-License-Identifier: Apache-2.0
"""What the controller takes, and the check before it takes it."""

from __future__ import annotations

import numpy as np

from rpent_box.contracts.observation import Actions
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import BadActions

_NAMES = tuple(field.name for field in LIBERO_OSC_DELTA.fields)

REST = np.array([0.0] * 6 + [-1.0])
"""Stay where you are, gripper open: float64 [7]."""

SETTLE_STEPS = 10
"""Control steps of `REST` after an initial state is set, before anyone looks."""

CONTROL_HZ = LIBERO_OSC_DELTA.control_hz


def check_actions(actions: Actions) -> None:
    """Raise `BadActions` unless `actions` is finite float32 [steps, 7] with at least one row."""
    if actions.dtype != np.float32:
        raise BadActions(f"actions are {actions.dtype}; libero takes float32")
    if actions.ndim != 2 or actions.shape[1] != len(_NAMES) or not actions.shape[0]:
        raise BadActions(
            f"actions have shape {list(actions.shape)}; libero takes [steps, {len(_NAMES)}]: "
            f"{', '.join(_NAMES)}"
        )
    if not np.isfinite(actions).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(actions))[0])
        raise BadActions(
            f"{_NAMES[column]} is {actions[row, column]} in step {row}; nothing was executed"
        )
