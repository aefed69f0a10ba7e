# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that takes a wine bottle by its neck and stands it somewhere else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.drawer import tilted
from rpent_box_libero.teaching.skills.motion import HAND_DOWN, across, action_for, funnel, ramp
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.skills.take import Hold, reach
from rpent_box_libero.teaching.state import Rotation, SceneState, Vector3

TABLE_M = 0.90


@dataclass(frozen=True)
class PutBottle:
    """Puts `bottle` at the site `onto`, leaning as much as the place does."""

    bottle: str = "wine_bottle_1"
    onto: str = "wooden_cabinet_1_top_side"
    shift: tuple[float, float, float] = (0.0, 0.03, 0.002)
    """From the site to where the middle of the bottle's foot comes to rest."""
    low: tuple[float, float, float] = (-0.125, -0.094, -0.0035)
    high: tuple[float, float, float] = (0.125, 0.094, 0.008)
    """Between these, in the site's frame, the foot is where LIBERO wants it and touches."""
    lean_rad: float = 0.0
    """About the world's x axis: positive lets the neck fall away to the robot's right."""
    neck: float = 0.125
    """From the foot along the bottle to where the hand takes it."""
    width: float = 0.0145
    over: float = 0.012
    """Horizontal distance from its place at which the bottle may be let go."""
    clear: float = 0.05
    """Height above its place at which it is carried."""
    lift: float = 0.09

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        hold = self._hold(state)
        wanted = hold.rotation
        if self._may_stand(state, hold):
            move, close = self._let_go(state, hold), False
            wanted = state.hand_rotation
        elif hold.is_held(state):
            move, close = self._carry(state), True
            wanted = self._carried_rotation(state)
        else:
            move, close = reach(state, hold, lift=self.lift)
        return action_for(
            move, close=close, hand_rotation=state.hand_rotation, wanted_rotation=wanted
        )

    def is_done(self, state: SceneState) -> bool:
        site = state.sites[self.onto]
        off = site.rotation @ (self._foot(state) - site.position)
        return bool(np.all(off > self.low) and np.all(off < self.high))

    def is_lost(self, state: SceneState) -> bool:
        """Whether the bottle lies, or has fallen down."""
        bottle = state.thing(self.bottle)
        lies = bottle.rotation[2, 2] < 0.6 and not self.is_done(state)
        return bool(lies or bottle.position[2] < TABLE_M - 0.1)

    def progress(self, state: SceneState) -> float:
        if self.is_done(state):
            return 1.0
        hold, way = self._hold(state), self._way(state)
        carry = across(way) + abs(float(way[2])) + self.clear
        if hold.is_held(state):
            return share_done(carry)
        return share_done(carry + 0.08 + float(np.linalg.norm(hold.point - state.hand)))

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        return self._hold(state).point, self._goal(state)

    def _foot(self, state: SceneState) -> Vector3:
        return state.thing(self.bottle).position

    def _goal(self, state: SceneState) -> Vector3:
        return state.sites[self.onto].position + self.shift

    def _way(self, state: SceneState) -> Vector3:
        return self._goal(state) - self._foot(state)

    def _hold(self, state: SceneState) -> Hold:
        axis = state.thing(self.bottle).rotation[:, 2]
        point = self._foot(state) + self.neck * axis
        return Hold(point=point, rotation=HAND_DOWN, width=self.width)

    def _carried_rotation(self, state: SceneState) -> Rotation:
        near = 1.0 - ramp(across(self._way(state)), 0.05, 0.12)
        return tilted(HAND_DOWN, self.lean_rad * near)

    def _may_stand(self, state: SceneState, hold: Hold) -> bool:
        way, done = self._way(state), self.is_done(state)
        if not hold.is_held(state):
            return done
        return across(way) < self.over and (done or -float(way[2]) < 0.004)

    def _carry(self, state: SceneState) -> Vector3:
        move, off = self._way(state), across(self._way(state))
        height = -float(move[2])
        if off > 0.03:
            move[:2] *= ramp(height, 0.0, 0.03)
        move[2] = -0.004 + self.clear * funnel(off) - height
        return move

    def _let_go(self, state: SceneState, hold: Hold) -> Vector3:
        near = float(np.linalg.norm(hold.point - state.hand)) < 0.08
        up = -state.hand_rotation[:, 2]
        return 0.05 * up if near and state.aperture > 0.04 else np.zeros(3)


ON_RACK = PutBottle(
    onto="wine_rack_1_top_region",
    shift=(0.0, -0.015, 0.019),
    low=(-0.10, -0.020, -0.0025),
    high=(0.10, 0.022, 0.10),
    lean_rad=0.5,
)
