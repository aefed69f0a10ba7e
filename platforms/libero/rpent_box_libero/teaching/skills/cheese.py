# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that takes a small box from above and drops it into a bowl."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.basket_grips import find_grip
from rpent_box_libero.teaching.skills.motion import across, action_for, funnel, ramp
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.skills.take import Hold, reach
from rpent_box_libero.teaching.state import SceneState, Vector3

RIM_M = 0.052
"""The bowl's height above its origin."""
TABLE_M = 0.90


@dataclass(frozen=True)
class IntoBowl:
    """Drops `thing`, one of the groceries, into `bowl`."""

    thing: str = "cream_cheese_1"
    bowl: str = "akita_black_bowl_1"
    over: float = 0.015
    """Horizontal distance to the bowl's middle at which the thing may fall."""
    lift: float = 0.10

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        hold = self._hold(state)
        if self._may_fall(state):
            rise = 0.05 if state.aperture > hold.width + 0.012 else 0.0
            move, close = np.array([0.0, 0.0, rise]), False
        elif hold.is_held(state):
            move, close = self._carry(state), True
        else:
            move, close = reach(state, hold, lift=self.lift)
        return action_for(
            move, close=close, hand_rotation=state.hand_rotation, wanted_rotation=hold.rotation
        )

    def is_done(self, state: SceneState) -> bool:
        return across(self._way(state)) < 0.03 and 0.0 <= -self._way(state)[2] < 0.055

    def is_lost(self, state: SceneState) -> bool:
        thing, bowl = state.thing(self.thing).position, state.thing(self.bowl)
        tipped = bowl.rotation[2, 2] < 0.8
        fallen = min(thing[2], bowl.position[2]) < TABLE_M - 0.1
        return bool(tipped or fallen)

    def progress(self, state: SceneState) -> float:
        if self.is_done(state):
            return 1.0
        hold = self._hold(state)
        carry = across(self._way(state)) + 0.10
        if hold.is_held(state):
            return share_done(carry)
        return share_done(carry + 0.12 + float(np.linalg.norm(hold.point - state.hand)))

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        return state.thing(self.thing).position, state.thing(self.bowl).position

    def _hold(self, state: SceneState) -> Hold:
        grip = find_grip(state, self.thing)
        return Hold(point=grip.point, rotation=grip.rotation, width=grip.width)

    def _way(self, state: SceneState) -> Vector3:
        return state.thing(self.bowl).position - state.thing(self.thing).position

    def _may_fall(self, state: SceneState) -> bool:
        way = self._way(state)
        return self.is_done(state) or (across(way) < self.over and -way[2] < RIM_M + 0.03)

    def _carry(self, state: SceneState) -> Vector3:
        move, off = self._way(state), across(self._way(state))
        height = -float(move[2])
        if off > 0.03:  # lift before crossing, or the fingers push the bowl away
            move[:2] *= ramp(height, RIM_M - 0.02, RIM_M + 0.03)
        move[2] = RIM_M + 0.015 + 0.04 * funnel(off) - height
        return move
