# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that opens a cabinet's drawer by its handle.

The hand lies on its side for it, the fingers above and below the handle's bar, because another
drawer's handle may be close above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.motion import (
    HAND_DOWN,
    action_for,
    ramp,
    rotation_vector,
)
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.state import Rotation, SceneState, Vector3


@dataclass(frozen=True)
class Handle:
    """A drawer of LIBERO's wooden cabinet: its body, its joint, where its bar is."""

    drawer: str = "wooden_cabinet_1_cabinet_middle"
    joint: str = "wooden_cabinet_1_middle_level"
    """Negative when open (metres)."""
    bar: tuple[float, float, float] = (-0.003, -0.1016, 0.1104)
    """The bar's middle, in the frame of the drawer, whose front looks along its own -y."""
    held_aperture: tuple[float, float] = (0.010, 0.028)

    def position(self, state: SceneState) -> Vector3:
        pose = state.bodies[self.drawer]
        position: Vector3 = pose.position + pose.rotation @ np.array(self.bar)
        return position

    def outward(self, state: SceneState) -> Vector3:
        """Return the way the drawer opens, a unit vector."""
        outward: Vector3 = -state.bodies[self.drawer].rotation[:, 1]
        return outward

    def opened(self, state: SceneState) -> float:
        """Return how far it stands open (metres)."""
        return -state.joints[self.joint]


MIDDLE = Handle()
TOP = Handle(
    drawer="wooden_cabinet_1_cabinet_top",
    joint="wooden_cabinet_1_top_level",
    bar=(-0.003, -0.1016, 0.1839),
)


@dataclass(frozen=True)
class OpenDrawer:
    """Pulls `handle` until its drawer is open."""

    handle: Handle = MIDDLE
    open_m: float = 0.14
    """LIBERO's measure of open."""
    enough_m: float = 0.15
    tilt_rad: float = 1.4
    """Of the hand, about the way the bar runs; a quarter turn lays it flat."""
    lift: float = 0.11
    """Above the bar the hand travels along it: it reaches 0.10 below the fingers."""
    before: float = 0.0
    """From the bar's middle, outward, to where the fingers close."""
    pull_m: float = 0.02
    """How far ahead of itself the hand pulls: further, and the bar slips out."""
    stand_off: float = 0.09
    """Outward from the bar: from here the hand goes straight in."""

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        if self.is_open_enough(state):
            return self._leave(state)
        move, close = self._pull(state) if self.is_held(state) else self._reach(state)
        return action_for(
            move,
            close=close,
            hand_rotation=state.hand_rotation,
            wanted_rotation=self.hand_rotation(),
        )

    def hand_rotation(self) -> Rotation:
        """Return the hand's rotation at the handle: fingers towards the cabinet."""
        return tilted(HAND_DOWN, -self.tilt_rad)

    def is_open_enough(self, state: SceneState) -> bool:
        return self.handle.opened(state) > self.enough_m

    def is_held(self, state: SceneState) -> bool:
        """Whether the bar is between the fingers."""
        low, high = self.handle.held_aperture
        off = float(np.linalg.norm(self._grasp(state) - state.hand))
        return low < state.aperture < high and off < 0.02

    def is_done(self, state: SceneState) -> bool:
        return self.handle.opened(state) > self.open_m

    def is_lost(self, state: SceneState) -> bool:  # noqa: ARG002 - a drawer cannot be upset
        return False

    def progress(self, state: SceneState) -> float:
        if self.is_done(state):
            return 1.0
        pull = self.open_m - self.handle.opened(state)
        if self.is_held(state):
            return share_done(pull)
        return share_done(pull + 0.1 + float(np.linalg.norm(self._grasp(state) - state.hand)))

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        bar = self.handle.position(state)
        return bar, bar + (self.enough_m - self.handle.opened(state)) * self.handle.outward(state)

    def _grasp(self, state: SceneState) -> Vector3:
        return self.handle.position(state) + self.before * self.handle.outward(state)

    def _pull(self, state: SceneState) -> tuple[Vector3, bool]:
        outward = self.handle.outward(state)
        move = self._grasp(state) - state.hand
        return move + (self.pull_m - float(move @ outward)) * outward, True

    def _reach(self, state: SceneState) -> tuple[Vector3, bool]:
        outward = self.handle.outward(state)
        error = self._grasp(state) - state.hand
        depth = -float(error @ outward)
        along = abs(float(np.cross(outward, [0.0, 0.0, 1.0]) @ error))
        error[2] += self.lift * ramp(along, 0.03, 0.06)
        beside = error + depth * outward
        off = float(np.linalg.norm(beside))
        turn = float(np.linalg.norm(rotation_vector(self.hand_rotation() @ state.hand_rotation.T)))
        begun = state.aperture < 0.074
        if off < (0.02 if begun else 0.012) and abs(depth) < (0.02 if begun else 0.01):
            return 0.5 * error, state.aperture > 0.005
        keep = max(ramp(off, 0.012, 0.04), ramp(turn, 0.15, 0.4))
        out = self.stand_off * (1.0 if begun else keep)
        if off > 0.03 and depth < out - 0.03:  # beside the bar and too near: back off first
            beside = 0.3 * beside
        return beside + (out - depth) * outward, False

    def _leave(self, state: SceneState) -> NDArray[np.float64]:
        outward = self.handle.outward(state)
        near = float(np.linalg.norm(self._grasp(state) - state.hand)) < 0.08
        move = 0.05 * outward if near and state.aperture > 0.04 else np.zeros(3)
        wanted = self.hand_rotation() if near else HAND_DOWN
        return action_for(
            move, close=False, hand_rotation=state.hand_rotation, wanted_rotation=wanted
        )


def tilted(rotation: Rotation, angle_rad: float) -> Rotation:
    """Return `rotation` turned about the world's x axis."""
    sine, cosine = np.sin(angle_rad), np.cos(angle_rad)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
    turned: Rotation = turn @ rotation
    return turned
