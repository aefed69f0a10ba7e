# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that takes a stove's knob by its bar and turns it with the wrist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.motion import HAND_DOWN, action_for, turned_about_z
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.skills.take import Hold, reach
from rpent_box_libero.teaching.state import SceneState, Vector3

METRES_PER_RADIAN = 0.2
"""What turning is worth in `progress`: the steps that it takes."""


@dataclass(frozen=True)
class TurnKnob:
    """Turns the knob `knob`, a hinge and the body on it, anticlockwise until it is on."""

    knob: str = "flat_stove_1_button"
    on_rad: float = 0.5
    """The stove burns from here on."""
    enough_rad: float = 0.65
    height: float = 0.036
    """Of the grasp above the knob's origin: the fingers clear the disc under the bar."""
    width: float = 0.026
    """Of the bar, as the fingers stall on it."""
    ahead_rad: float = 0.9
    """How far ahead of the bar the hand turns."""
    lift: float = 0.08

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        hold = self._hold(state)
        wanted = hold.rotation
        if self._angle(state) > self.enough_rad:
            rise = 0.05 if state.aperture > self.width + 0.012 else 0.0
            move, close = np.array([0.0, 0.0, rise]), False
        elif hold.is_held(state):
            move, close = hold.point - state.hand, True
            wanted = turned_about_z(HAND_DOWN, self._angle(state) + self.ahead_rad)
        else:
            move, close = reach(state, hold, lift=self.lift)
        return action_for(
            move, close=close, hand_rotation=state.hand_rotation, wanted_rotation=wanted
        )

    def is_done(self, state: SceneState) -> bool:
        return self._angle(state) >= self.on_rad

    def is_lost(self, state: SceneState) -> bool:  # noqa: ARG002 - a stove cannot be upset
        return False

    def progress(self, state: SceneState) -> float:
        if self.is_done(state):
            return 1.0
        hold = self._hold(state)
        left = METRES_PER_RADIAN * (self.on_rad - self._angle(state))
        if hold.is_held(state):
            return share_done(left)
        return share_done(left + 0.08 + float(np.linalg.norm(hold.point - state.hand)))

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        pivot = state.bodies[self.knob].position
        return pivot, pivot

    def _angle(self, state: SceneState) -> float:
        return state.joints[self.knob]

    def _hold(self, state: SceneState) -> Hold:
        point = state.bodies[self.knob].position + np.array([0.0, 0.0, self.height])
        return Hold(point, turned_about_z(HAND_DOWN, self._angle(state)), self.width)
