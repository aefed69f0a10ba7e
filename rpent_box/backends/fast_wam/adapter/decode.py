# SPDX-License-Identifier: Apache-2.0
"""From `FastWAM.infer_action`'s normalised actions to native ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output, to_actions
from rpent_box.backends.fast_wam.calibration import Calibration
from rpent_box.contracts.observation import Actions

GRIPPER = 6
"""LIBERO's last column: in the data set 0 is closed and 1 open, in LIBERO -1 is open."""


def decode_libero(output: NDArray[Any], calibration: Calibration) -> Actions:
    """Return float32 [horizon, 7] from the model's [horizon, 7]. Raises `BadActions`."""
    actions = _restored(output, 7, calibration)
    # FastWAM, experiments/libero/eval_libero_single.py, `_predict_action_chunk`.
    actions[:, GRIPPER] = -(actions[:, GRIPPER] * 2 - 1)
    if calibration.binarize_gripper:
        actions[:, GRIPPER] = np.sign(actions[:, GRIPPER])
    return actions


def decode_robotwin(output: NDArray[Any], calibration: Calibration) -> Actions:
    """Return float32 [horizon, 14] from the model's [horizon, 14]. Raises `BadActions`."""
    return _restored(output, 14, calibration)


def _restored(output: NDArray[Any], length: int, calibration: Calibration) -> Actions:
    """Denormalise; refuse what is not finite before and after, so that no sign can hide it."""
    wanted = (calibration.action_horizon, length)
    checked = require_output(output, wanted, backend="fast-wam")
    meant = calibration.action.backward(checked.astype(np.float32))
    return to_actions(meant, backend="fast-wam")
