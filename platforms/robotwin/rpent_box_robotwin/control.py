# SPDX-License-Identifier: Apache-2.0
"""What the two controllers take, and the checks before they take it. Needs no simulator."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.checks import check_commands
from rpent_box.contracts.control import ActionSpace, ControlSpec, control_spec
from rpent_box.contracts.observation import Actions
from rpent_box.contracts.spaces import ROBOTWIN_EEF16, ROBOTWIN_QPOS14
from rpent_box.errors import BadActions, IncompatibleWorker

ActionType: TypeAlias = Literal["qpos", "ee"]
"""RoboTwin's own word for a controller."""

CONTROL_HZ = ROBOTWIN_QPOS14.control_hz
"""Actions per second that models are trained at. What one action takes is another matter: each is
executed until its targets are reached, 4 ms per physics step, 0.2 s where nothing moves."""

QUATERNION_TOLERANCE = 0.01
"""How far from 1 a quaternion's length may be. Within it, the rotation is what is meant."""

_SPACES: dict[ActionType, ActionSpace] = {"qpos": ROBOTWIN_QPOS14, "ee": ROBOTWIN_EEF16}
_QUATERNIONS = {"left": slice(3, 7), "right": slice(11, 15)}


def action_type(control: ControlSpec) -> ActionType:
    """Return the controller that `control` means. Raises `IncompatibleWorker` for another one."""
    for name, space in _SPACES.items():
        if control == control_spec(space):
            return name
    raise IncompatibleWorker(
        f"robotwin does not move in {control.action_space} ({control.action_type}, "
        f"{control.action_dim} columns, {control.embodiment}); it moves in "
        f"{' or '.join(space.id for space in _SPACES.values())}"
    )


def check_actions(actions: Actions, kind: ActionType) -> None:
    """Raise `BadActions` unless `actions` is finite float32 [steps, 14 or 16] with a row or more.

    Quaternions must have unit length. Grippers are not checked: RoboTwin clips them to [0, 1].
    """
    check_commands(actions, _SPACES[kind], platform="robotwin")
    if kind == "ee":
        _check_quaternions(actions)


def executable(actions: Actions, kind: ActionType) -> NDArray[np.float64]:
    """Return checked `actions` as RoboTwin is given them: float64, quaternions of length 1."""
    rows = actions.astype(np.float64)
    if kind == "ee":
        for columns in _QUATERNIONS.values():
            rows[:, columns] /= np.linalg.norm(rows[:, columns], axis=1, keepdims=True)
    return rows


def _check_quaternions(actions: Actions) -> None:
    for side, columns in _QUATERNIONS.items():
        lengths = np.linalg.norm(actions[:, columns], axis=1)
        off = np.abs(lengths - 1) > QUATERNION_TOLERANCE
        if off.any():
            row = int(np.argmax(off))
            raise BadActions(
                f"{side}_quaternion has length {lengths[row]:.4g} in step {row}; "
                f"robotwin takes unit quaternions w, x, y, z; nothing was executed"
            )
