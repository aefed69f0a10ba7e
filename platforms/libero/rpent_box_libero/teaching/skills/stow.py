# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that opens a drawer and puts a bowl inside.

The open drawer hangs over the table close to the bowl, so the hand leans back to the robot when it
takes the bowl, and brings it out from beside the drawer before it lifts it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.drawer import TOP, OpenDrawer
from rpent_box_libero.teaching.skills.motion import (
    HAND_DOWN,
    across,
    action_for,
    funnel,
    holds_wall,
    ramp,
    rotation_vector,
)
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.state import Rotation, SceneState, Vector3

TABLE_M = 0.90
STEPS = 170.0
SLOW_M = 0.018
"""The longest move asked for in a step close to the bowl."""


@dataclass(frozen=True)
class StowBowl:
    """Opens `drawer` and drops `bowl` at the site `into`, which moves with it."""

    bowl: str = "akita_black_bowl_1"
    into: str = "wooden_cabinet_1_top_region"
    drawer: OpenDrawer = OpenDrawer(TOP, enough_m=0.14, pull_m=0.025, lift=0.08)
    open_m: float = 0.12
    """From here on the bowl fits in."""
    half_size: tuple[float, float] = (0.10, 0.075)
    """Around the site, along x and y, LIBERO counts a bowl as inside,"""
    heights: tuple[float, float] = (-0.039, 0.029)
    """and from here to here above it."""
    grip: tuple[float, float, float] = (0.0, 0.045, 0.040)
    """From the bowl's origin to its rim on the robot's left."""
    held_aperture: tuple[float, float] = (0.0025, 0.0125)
    lean_rad: float = 0.5
    """Of the hand, back towards the robot."""
    beside: float = 0.185
    """From the site, towards the robot, to where a bowl clears the drawer's side."""
    walls: float = 0.055
    """Height above the site at which the bowl is carried over the drawer's walls."""
    lift: float = 0.10

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        if self._is_at_handle(state):
            return self.drawer.act(state)
        if self.is_done(state):
            up = 0.05 if state.aperture > 0.06 else 0.0
            move, close = np.array([0.0, 0.0, up]), False
        elif self.is_held(state):
            move, close = self._carry(state), True
        else:
            move, close = self._reach(state)
        return action_for(
            move,
            close=close,
            hand_rotation=state.hand_rotation,
            wanted_rotation=self._hand_rotation(),
        )

    def is_held(self, state: SceneState) -> bool:
        """Whether the bowl's wall is between the fingers."""
        return holds_wall(state, self._bowl(state), aperture=self.held_aperture, reach=0.09)

    def is_done(self, state: SceneState) -> bool:
        off = self._bowl(state) - state.sites[self.into].position
        inside = np.all(np.abs(off[:2]) < self.half_size)
        return bool(inside and self.heights[0] < off[2] < self.heights[1])

    def is_lost(self, state: SceneState) -> bool:
        bowl = state.thing(self.bowl)
        return bool(bowl.rotation[2, 2] < 0.8 or bowl.position[2] < TABLE_M - 0.1)

    def progress(self, state: SceneState) -> float:
        if self.is_done(state):
            return 1.0
        carry = across(self._goal(state) - self._bowl(state)) + 0.3
        if self.is_held(state):
            return share_done(carry, of_steps=STEPS)
        if self._is_open(state):
            grasp = float(np.linalg.norm(self._grasp(state) - state.hand))
            return share_done(grasp + carry + 0.1, of_steps=STEPS)
        handle = self.drawer.handle
        pull = self.drawer.open_m - handle.opened(state)
        reach = float(np.linalg.norm(handle.position(state) - state.hand))
        return share_done(reach + pull + 0.4 + carry + 0.2, of_steps=STEPS)

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        """Return the handle and where it goes, then the bowl and the drawer."""
        if self._is_open(state):
            return self._bowl(state), self._goal(state)
        return self.drawer.places(state)

    def _is_open(self, state: SceneState) -> bool:
        return self.drawer.handle.opened(state) > self.open_m

    def _is_at_handle(self, state: SceneState) -> bool:
        """Whether the drawer is what the hand is to deal with, or to get away from."""
        if self.is_done(state):
            return False
        handle = self.drawer.handle
        off = state.hand - handle.position(state)
        away = float(np.linalg.norm(off))
        out = float(off @ handle.outward(state))
        turn = rotation_vector(self.drawer.hand_rotation() @ state.hand_rotation.T)
        lies = float(np.linalg.norm(turn)) < 0.6
        return not self._is_open(state) or (lies and away < 0.12 and out < 0.045)

    def _hand_rotation(self) -> Rotation:
        sine, cosine = np.sin(self.lean_rad), np.cos(self.lean_rad)
        lean = np.array([[cosine, 0.0, -sine], [0.0, 1.0, 0.0], [sine, 0.0, cosine]])
        leaning: Rotation = lean @ HAND_DOWN
        return leaning

    def _bowl(self, state: SceneState) -> Vector3:
        return state.thing(self.bowl).position

    def _grasp(self, state: SceneState) -> Vector3:
        grasp: Vector3 = self._bowl(state) + np.array(self.grip)
        return grasp

    def _goal(self, state: SceneState) -> Vector3:
        goal: Vector3 = state.sites[self.into].position + [-0.02, 0.0, 0.015]
        return goal

    def _carry(self, state: SceneState) -> Vector3:
        bowl, site = self._bowl(state), state.sites[self.into].position
        move = self._goal(state) - bowl
        off = across(move)
        if off < 0.05:
            move[2] += 0.045 * funnel(off, start=0.02, width=0.02)
            return move
        over = float(site[2]) + self.walls
        move[2] = over - bowl[2]
        if move[2] > 0.03:  # still too low: out from beside the drawer, then up
            beside = float(site[0]) - self.beside - float(bowl[0])
            if bowl[2] < site[2] - 0.07:
                move[2] = min(move[2], site[2] - 0.08 - bowl[2] + 0.3 * ramp(-beside, 0.02, 0.0))
            move[:2] = [min(beside, 0.0), 0.0]
        return move

    def _reach(self, state: SceneState) -> tuple[Vector3, bool]:
        grasp, rotation = self._grasp(state), self._hand_rotation()
        inward = rotation[:, 2]
        error = grasp - state.hand
        before = float(np.clip(error @ inward, 0.0, self.lift))
        aside = error - before * inward
        off = float(np.linalg.norm(aside))
        begun = state.aperture < 0.074
        near = 0.03 if begun else 0.014
        if off < near and before < near and state.aperture > 0.0025:
            return error, True
        turn = float(np.linalg.norm(rotation_vector(rotation @ state.hand_rotation.T)))
        keep = 1.0 if begun else max(funnel(off, start=0.016, width=0.03), ramp(turn, 0.15, 0.4))
        move = error - self.lift * keep * inward
        if keep == 0.0:  # slowly, or the hand runs into the rim
            move *= min(1.0, SLOW_M / float(np.linalg.norm(move)))
        far = ramp(across(aside), 0.05, 0.12)
        if far > 0:  # over everything: the drawer is in the way
            rise = self._travel_height(state) - state.hand[2]
            move[2] += far * (rise - move[2])
            move[:2] *= ramp(rise, 0.09, 0.04)
        return move, False

    def _travel_height(self, state: SceneState) -> float:
        return float(state.sites[self.into].position[2]) + 0.11
