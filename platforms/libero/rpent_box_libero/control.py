# SPDX-License-Identifier: Apache-2.0
"""What the controller takes, and the check before it takes it."""

from __future__ import annotations

import numpy as np

from rpent_box.contracts.checks import check_commands
from rpent_box.contracts.observation import Actions
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA

REST = np.array([0.0] * 6 + [-1.0])
"""Stay where you are, gripper open: float64 [7]."""

SETTLE_STEPS = 10
"""Control steps of `REST` after an initial state is set, before anyone looks."""

CONTROL_HZ = LIBERO_OSC_DELTA.control_hz


def check_actions(actions: Actions) -> None:
    """Raise `BadActions` unless `actions` is finite float32 [steps, 7] with at least one row."""
    check_commands(actions, LIBERO_OSC_DELTA, platform="libero")
