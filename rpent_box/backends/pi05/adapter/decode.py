# SPDX-License-Identifier: Apache-2.0
"""From openpi's actions to LIBERO's."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output, to_actions
from rpent_box.contracts.observation import Actions
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA


def decode_libero(output: NDArray[Any], _: None) -> Actions:
    """Return float32 [horizon, 7] from openpi's float64 [horizon, 7].

    They are native already: openpi has undone its normalisation, the gripper is trained as LIBERO
    has it, and nothing is limited to [-1, 1], here as there. Raises `BadActions`.
    """
    checked = require_output(output, (1, LIBERO_OSC_DELTA.action_dim), backend="pi05")
    return to_actions(checked, backend="pi05")
