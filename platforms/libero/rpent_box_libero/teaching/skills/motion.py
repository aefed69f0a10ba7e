# SPDX-License-Identifier: Apache-2.0
"""What the experts share: turning wanted movements into actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skill import POSITION_SCALE_M, ROTATION_SCALE_RAD
from rpent_box_libero.teaching.state import Rotation, SceneState, Vector3

HAND_DOWN: Rotation = np.array([[0.9984, 0.0, -0.0568], [0.0, -1.0, 0.0], [-0.0568, 0.0, -0.9984]])
"""The hand's rotation at the robot's home pose: fingers down, opening along the world's y axis."""

MOVE_GAIN = 1.6
"""The controller falls behind its goal, so that an action asks for more than what is missing."""
TURN_GAIN = 0.6


def action_for(
    move: Vector3,
    *,
    close: bool,
    hand_rotation: Rotation,
    wanted_rotation: Rotation = HAND_DOWN,
    gain: float = MOVE_GAIN,
) -> NDArray[np.float64]:
    """Return the action [7] that moves the hand by `move` (metres, world frame) and turns it.

    A move further than a step can take keeps its direction only roughly: each axis is clipped.
    """
    turn = TURN_GAIN * rotation_vector(wanted_rotation @ hand_rotation.T) / ROTATION_SCALE_RAD
    arm = np.clip(np.concatenate([gain * move / POSITION_SCALE_M, turn]), -1.0, 1.0)
    return np.append(arm, 1.0 if close else -1.0)


def rotation_vector(rotation: Rotation) -> Vector3:
    """Return the axis-angle vector (rad) of a rotation matrix [3, 3] of less than half a turn."""
    axis = np.array(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    sine = float(np.linalg.norm(axis)) / 2.0
    cosine = (float(np.trace(rotation)) - 1.0) / 2.0
    if sine < 1e-9:
        return axis / 2.0
    return axis / (2.0 * sine) * float(np.arctan2(sine, cosine))


def turned_about_z(rotation: Rotation, angle_rad: float) -> Rotation:
    """Return `rotation` turned about the world's z axis, anticlockwise seen from above."""
    sine, cosine = np.sin(angle_rad), np.cos(angle_rad)
    turn = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    turned: Rotation = turn @ rotation
    return turned


def funnel(off: float, *, start: float = 0.010, width: float = 0.025) -> float:
    """Return which share of its travel height the hand keeps at a horizontal error (metres).

    Instead of phases: the height aimed at grows with the error, so that the hand comes down only
    where it is in place.

        1 ┤        ╭──────────
          │       ╱
          │      ╱
        0 ┼─────╯
          └─────┬───┬─────────  horizontal error
              start  start + width
    """
    return ramp(off, start, start + width)


def ramp(value: float, low: float, high: float) -> float:
    """Return 0 up to `low`, 1 from `high` on, and a straight line between."""
    return float(np.clip((value - low) / (high - low), 0.0, 1.0))


def across(vector: Vector3) -> float:
    """Return a vector's length seen from above (metres)."""
    return float(np.hypot(vector[0], vector[1]))


def holds_wall(
    state: SceneState, middle: Vector3, *, aperture: tuple[float, float], reach: float
) -> bool:
    """Whether a bowl's wall is between the fingers: they stall within `aperture`, near `middle`.

    Contacts say less: a rim is held by the finger tips, which robosuite's grasp test ignores.
    """
    low, high = aperture
    near = bool(np.linalg.norm(state.hand - middle) < reach)
    return low < state.aperture < high and near
