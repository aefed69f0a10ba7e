# SPDX-License-Identifier: Apache-2.0
"""What the controllers take, and the check before they take it."""

from __future__ import annotations

from rpent_box.contracts.checks import check_commands
from rpent_box.contracts.control import ControlSpec, control_spec
from rpent_box.contracts.observation import Actions
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import ContractError

CONTROL_HZ = ROBOCASA_12.control_hz

PARTS = {"right": (0, 6), "right_gripper": (6, 7), "base": (7, 10), "torso": (10, 11)}
"""Robosuite's controllers → the columns that each gets. The last column is the arm's mode."""


def check_control(control: ControlSpec) -> None:
    """Raise `ContractError` unless `control` is the one that there is."""
    if control != control_spec(ROBOCASA_12):
        raise ContractError(
            f"robocasa moves in {ROBOCASA_12.id}, not in {control.action_space} "
            f"with {len(control.action_schema)} columns",
            hint=f"Models that fit: rpent-box list --space {ROBOCASA_12.id}",
        )


def check_actions(actions: Actions) -> None:
    """Raise `BadActions` unless `actions` is finite float32 [steps, 12] with at least one row."""
    check_commands(actions, ROBOCASA_12, platform="robocasa")
