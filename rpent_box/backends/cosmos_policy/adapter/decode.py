# SPDX-License-Identifier: Apache-2.0
"""From what Cosmos Policy's own `get_action` returns to LIBERO's actions.

The actions are unnormalised there already, in LIBERO's own units and with its gripper sign: nothing
is flipped, scaled or limited here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output, to_actions
from rpent_box.backends.cosmos_policy.options import ACTION_HORIZON, CosmosPolicyOptions
from rpent_box.contracts.observation import Actions, Image
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import BadActions

FUTURE_IMAGES = {"primary": "future_image", "wrist": "future_wrist_image"}
"""Camera role → its name in `future_image_predictions`."""
_BACKEND = "cosmos-policy"


def decode_libero(output: NDArray[Any], options: CosmosPolicyOptions) -> Actions:
    """Return float32 [execute_steps, 7] from float64 [16, 7].

    All sixteen steps are checked, also those that are not executed. Raises `BadActions`.
    """
    wanted = (ACTION_HORIZON, LIBERO_OSC_DELTA.action_dim)
    checked = require_output(output, wanted, backend=_BACKEND)
    if len(checked) != ACTION_HORIZON:
        raise BadActions(
            f"{_BACKEND}'s model returned {len(checked)} steps; it is one of {ACTION_HORIZON}"
        )
    return to_actions(checked[: options.execute_steps], backend=_BACKEND)


def native_actions(answer: Mapping[str, Any]) -> NDArray[Any]:
    """Return the sixteen arrays [7] of `get_action`'s answer as one. Raises `BadActions`."""
    steps = answer.get("actions")
    try:
        return np.asarray(steps, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadActions(f"{_BACKEND}'s model returned no array of actions: {error}") from error


def decode_future(answer: Mapping[str, Any]) -> dict[str, Image]:
    """Return camera role → uint8 RGB [224, 224, 3], upright, as expected after the whole horizon.

    Raises `BadActions` for a frame that is missing or no uint8 image.
    """
    predicted = answer.get("future_image_predictions") or {}
    return {role: _frame(predicted.get(name), role) for role, name in FUTURE_IMAGES.items()}


def decode_value(answer: Mapping[str, Any]) -> float:
    """Return the expected success, 0 to 1. Raises `BadActions`."""
    value = answer.get("value_prediction")
    if not isinstance(value, float) or not 0.0 <= value <= 1.0:
        raise BadActions(f"{_BACKEND}'s model returned the value {value}; wanted 0 to 1")
    return value


def _frame(frame: object, role: str) -> Image:
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.shape[2:] != (3,):
        shown = f"{frame.dtype} {list(frame.shape)}" if isinstance(frame, np.ndarray) else frame
        raise BadActions(
            f"{_BACKEND}'s model returned a future {role} of {shown}; "
            "wanted uint8 RGB [height, width, 3]"
        )
    return np.ascontiguousarray(frame)
