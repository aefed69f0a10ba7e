# SPDX-License-Identifier: Apache-2.0
"""How the experts of libero_goal take a thing between the fingers, and when they have it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rpent_box_libero.teaching.skills.motion import across, funnel, ramp, rotation_vector
from rpent_box_libero.teaching.state import Rotation, SceneState, Vector3

OPEN_M = 0.079
"""Between the open fingers."""
BEGUN_M = 0.074
"""A hand that is closed further than this has begun to take something."""
SLACK_M = 0.007
"""By how much the fingers may stall off a thing's width."""


@dataclass(frozen=True)
class Hold:
    """A place where the hand can take a thing, coming down on it, world frame."""

    point: Vector3
    """Where the point between the finger tips goes."""
    rotation: Rotation
    """Of the hand."""
    width: float
    """What the fingers close on (metres)."""

    def is_held(self, state: SceneState) -> bool:
        """Whether the fingers have the thing here."""
        off = float(np.linalg.norm(self.point - state.hand))
        return off < 0.03 and abs(state.aperture - self.width) < SLACK_M


def reach(state: SceneState, hold: Hold, *, lift: float) -> tuple[Vector3, bool]:
    """Return the move (metres) that takes the hand to `hold` from above, and whether to close.

    The hand travels `lift` above the place, and comes down where it is over it and turned.
    """
    error = hold.point - state.hand
    off = across(error)
    turn = float(np.linalg.norm(rotation_vector(hold.rotation @ state.hand_rotation.T)))
    begun = state.aperture < BEGUN_M
    room = (OPEN_M - hold.width) / 2
    near = 0.022 if begun else min(0.55 * room, 0.012)
    can_hold = state.aperture > hold.width - SLACK_M
    if can_hold and off < near and abs(error[2]) < max(near, 0.010):
        return 0.5 * error, True
    # Open fingers first: half closed ones would come down on the thing itself.
    keep = max(funnel(off, start=0.35 * room, width=0.8 * room), ramp(turn, 0.12, 0.3))
    if begun:
        keep = 1.0
    rise = error[2] + lift * keep
    if off > 0.02:
        error[:2] *= ramp(rise, 0.05, 0.02)
    error[2] = rise
    return error, False
