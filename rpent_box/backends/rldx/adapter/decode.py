# SPDX-License-Identifier: Apache-2.0
"""What an RLDX server answers → actions of RoboCasa's twelve columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output, to_actions
from rpent_box.backends.rldx.modality import Modality
from rpent_box.backends.rldx.names import COLUMNS, CONTROL_MODE, GRIPPER
from rpent_box.contracts.observation import Actions
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import BadActions

THRESHOLD = 0.5


def joined(answer: object, modality: Modality) -> NDArray[np.floating[Any]]:
    """Return the parts of an answer side by side, [horizon, 12], in our columns, in model units.

    `answer` is {name: [1, horizon, width]}; the names may begin with `action.`, as a server with
    `--use-sim-policy-wrapper` has them. Raises `BadActions` for a missing or superfluous part, a
    wrong shape, or a value that is no finite number.
    """
    parts = _parts(answer, modality)
    values: NDArray[Any] = np.concatenate([parts[name][0] for name in COLUMNS], axis=1)
    return values


def decode(values: NDArray[np.floating[Any]], modality: Modality) -> Actions:
    """Return float32 [horizon, 12] in native units of the action space.

    Gripper and control mode are -1 below one half and +1 from there on, as RoboCasa's own wrapper
    has it (robocasa/wrappers/gym_wrapper.py, `unmap_action`); the rest is unchanged.
    """
    shape = (modality.horizon, ROBOCASA_12.action_dim)
    checked = require_output(values, shape, backend="rldx")
    actions: Actions = to_actions(checked, backend="rldx").copy()
    for column in (GRIPPER, CONTROL_MODE):
        actions[:, column] = np.where(values[:, column] < THRESHOLD, -1.0, 1.0)
    return actions


def in_native_order(values: NDArray[np.floating[Any]], modality: Modality) -> NDArray[np.float32]:
    """Return rows of `joined` with their columns in the checkpoint's own order, float32."""
    return np.concatenate([values[:, COLUMNS[name]] for name in modality.actions], axis=1).astype(
        np.float32
    )


def _parts(answer: object, modality: Modality) -> dict[str, NDArray[np.floating[Any]]]:
    if not isinstance(answer, dict):
        raise BadActions(f"rldx's server answered {type(answer).__name__}; wanted named arrays")
    parts = {str(name).removeprefix("action."): part for name, part in answer.items()}
    if sorted(parts) != sorted(COLUMNS):
        raise BadActions(
            f"rldx's server answered {', '.join(sorted(parts)) or 'nothing'}; "
            f"wanted {', '.join(sorted(COLUMNS))}"
        )
    for name, part in parts.items():
        _check_part(name, part, modality.horizon)
    return parts


def _check_part(name: str, part: object, horizon: int) -> None:
    width = COLUMNS[name].stop - COLUMNS[name].start
    if not isinstance(part, np.ndarray) or part.ndim != 3 or part.shape[0] != 1:
        shape = list(part.shape) if isinstance(part, np.ndarray) else type(part).__name__
        raise BadActions(
            f"rldx's server answered {name} as {shape}; wanted [1, {horizon}, {width}]"
        )
    if part.shape[1] > horizon:
        raise BadActions(
            f"rldx's server answered {part.shape[1]} steps of {name}; its model has {horizon}"
        )
    require_output(part[0], (horizon, width), backend=f"rldx's {name}:")
