# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that pushes a plate over the table, closed fingers inside its rim.

From inside, a push can go any way without walking round the plate first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.motion import across, action_for, funnel, ramp
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.state import SceneState, Vector3

TABLE_M = 0.90
FASTEST_M = 0.03
"""The longest move asked for in a step while pushing."""


@dataclass(frozen=True)
class PushPlate:
    """Pushes `plate` to the site `to` on the table."""

    plate: str = "plate_1"
    to: str = "main_table_stove_front_region"
    near_m: float = 0.04
    """Along x and y, how far from the site LIBERO still counts it as there."""
    enough_m: float = 0.012
    shift: tuple[float, float, float] = (0.015, 0.0, 0.0)
    """From the site to where the plate is pushed."""
    touch: float = 0.016
    """The hand's height above the plate's origin when its tips stand on the plate."""
    press: float = 0.010
    """How far below that the hand aims while it pushes."""
    round_m: float = 0.075
    """How far beside its place, away from the stove, the plate is pushed first."""
    inside: float = 0.042
    """Horizontal distance from the plate's middle at which the tips are inside its rim."""
    lift: float = 0.08

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        if self.is_there(state):
            move = np.array([0.0, 0.0, 0.05])
        elif self.is_inside(state):
            move = self._push(state)
        else:
            move = self._reach(state)
        return action_for(move, close=True, hand_rotation=state.hand_rotation)

    def is_there(self, state: SceneState) -> bool:
        """Whether the plate is as near as it is pushed."""
        return across(self._way(state)) < self.enough_m

    def is_inside(self, state: SceneState) -> bool:
        """Whether the finger tips stand on the plate, inside its rim."""
        off = self._over(state) - state.hand
        return across(off) < self.inside and -off[2] < 0.003

    def is_done(self, state: SceneState) -> bool:
        off = self._plate(state) - state.sites[self.to].position
        return bool(np.all(np.abs(off[:2]) < self.near_m)) and 0.002 < off[2] < 0.02

    def is_lost(self, state: SceneState) -> bool:
        plate = state.thing(self.plate)
        return bool(plate.rotation[2, 2] < 0.8 or plate.position[2] < TABLE_M - 0.1)

    def progress(self, state: SceneState) -> float:
        if self.is_done(state):
            return 1.0
        push = across(self._way(state))
        return share_done(push + float(np.linalg.norm(self._over(state) - state.hand)))

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        return self._plate(state), state.sites[self.to].position

    def _plate(self, state: SceneState) -> Vector3:
        return state.thing(self.plate).position

    def _over(self, state: SceneState) -> Vector3:
        return self._plate(state) + [0.0, 0.0, self.touch]

    def _way(self, state: SceneState) -> Vector3:
        return state.sites[self.to].position + self.shift - self._plate(state)

    def _push(self, state: SceneState) -> Vector3:
        move = self._way(state)
        # Past what stands in the straight way: between plate and stove it would jam. Then in.
        round_m = self.round_m * ramp(abs(float(move[1])), 0.02, 0.05)
        move[0] = min(float(move[0]) + round_m, 0.0) if move[0] < 0 else move[0]
        move *= min(1.0, FASTEST_M / across(move))
        move[2] = self._over(state)[2] - self.press - state.hand[2]
        return move

    def _reach(self, state: SceneState) -> Vector3:
        error = self._over(state) - state.hand
        off = across(error)
        rise = error[2] + self.lift * funnel(off, start=0.015)
        if off > 0.02:  # over the rim, or beside the plate and too low: rise first
            error[:2] *= ramp(rise, 0.05, 0.02)
        error[2] = rise - (0.5 * self.press if off < 0.015 else 0.0)
        return error
