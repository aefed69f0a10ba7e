# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that takes one of the groceries from above and drops it into the basket.

height aimed at
  travel ┤     ╭──────── lift ───────╮      above the rim
         │    ╱                       ╲
   taken ┼───╯                         ╰─── let go below the rim
         └────┬──────────────────────────┬─────
          off the thing             off the basket
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.basket_grips import Grip, Grocery, find_grip, grocery_of
from rpent_box_libero.teaching.skills.motion import (
    HAND_DOWN,
    across,
    action_for,
    funnel,
    ramp,
    rotation_vector,
)
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.state import Pose, Rotation, SceneState, Vector3

RIM_M = 0.148
"""The basket's height above its origin."""
INSIDE_HALF_M = 0.045
"""Half of the basket's inner length, less some room."""
CONTAINED_M = (0.061, 0.061, 0.136)
"""LIBERO counts a thing as inside when its origin is this near to the basket's."""
CROSSING_M = 0.03
"""How high above the rim a thing's foot is carried."""
OPEN_M = 0.079
OPENS_TO_M = 0.074
"""Below this the fingers have begun to close, or are still opening."""
ABOUT_M = 0.007
"""The fingers stall this near to a thing's width."""
NARROWEST_M = 0.01
"""Between the fingers, with a thing."""
LIFTED_M = 0.012
"""What is this high above the floor is carried by something."""
TRAVEL_M = 0.185
"""The hand's height above whatever stands in a scene (0.147)."""
FREE_M = 0.30
"""The hand's height when all is done."""
SHOULDER = np.array([-0.6, 0.0, 0.333])
WRIST_M = (0.088, 0.207)
"""From the wrist's centre to the point between the finger tips: outwards, and along the hand."""
STRETCHED_M = (0.67, 0.70)
"""From shoulder to wrist, while the elbow straightens."""
PULL = 3.0
REACH_M = (0.30, 0.85)
"""What the hand reaches on the floor, from the robot's base."""

METRES_PER_STEP = 0.0125
STEPS_SHOWN_AS_ZERO_PROGRESS = 105.0
GRASP_M = 0.09
LET_GO_M = 0.12
"""Time without movement, as if it were a way."""


@dataclass(frozen=True)
class Drop:
    """Where a thing is let go, metres."""

    off: float
    """At most this far from the basket's middle."""
    above: float
    """With its lowest point at most this high above the rim."""
    lowest: float
    """How far down it is aimed."""


UPRIGHT = Drop(off=0.03, above=0.0, lowest=-0.03)
LYING = Drop(off=0.012, above=0.012, lowest=0.0)
"""Too long to go in flat: it would come to rest on the rim."""


@dataclass(frozen=True)
class IntoBasket:
    """Puts `thing` into `basket`, wherever it stands or lies now."""

    thing: str
    """As in the scene's file: `milk_1`."""
    basket: str = "basket_1"

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        if self.may_fall(state):
            return self._let_go(state)
        if self.is_held(state):
            return self._carry(state)
        return _take(state, find_grip(state, self.thing))

    def is_held(self, state: SceneState) -> bool:
        """Whether the thing is between the fingers.

        They are as far apart as it is wide where it should be taken; or it is off the floor near
        them, taken where another width is.
        """
        grip = find_grip(state, self.thing)
        off = np.abs(state.hand_rotation.T @ (grip.point - state.hand))
        near = off - [grip.slack, 0.0, 0.0] < [0.02, 0.02, 0.025]
        if near.all() and abs(state.aperture - grip.width) < ABOUT_M:
            return True
        hangs = self._grocery.lowest(self._pose(state)) > LIFTED_M
        within = off - [grip.slack, 0.0, 0.0] < [0.03, 0.02, 0.06]
        return bool(hangs and within.all() and NARROWEST_M < state.aperture < OPENS_TO_M)

    def may_fall(self, state: SceneState) -> bool:
        """Whether the thing is inside the basket, or falls into it when let go."""
        way, above = self._way(state), self._above_rim(state)
        drop = self._drop(state)
        over = across(way) < drop.off and above < drop.above
        return over or self.is_done(state)

    def is_done(self, state: SceneState) -> bool:
        """Whether the thing is inside the basket, as LIBERO sees it."""
        x, y, z = np.abs(self._pose(state).position - self._basket(state))
        return bool(x < CONTAINED_M[0] and y < CONTAINED_M[1] and z < CONTAINED_M[2])

    def is_lost(self, state: SceneState) -> bool:
        """Whether the thing or the basket is out of reach, or the basket has tipped over."""
        near, far = REACH_M
        for pose in (self._pose(state), state.thing(self.basket)):
            if not near < across(pose.position - SHOULDER) < far:
                return True
        return bool(state.thing(self.basket).rotation[2, 2] < 0.8)

    def progress(self, state: SceneState) -> float:
        """Return how much of the task is done, 0 to 1, from the steps that distances stand for."""
        if self.is_done(state):
            return 1.0
        left = across(self._way(state)) + LET_GO_M
        left += max(CROSSING_M - self._above_rim(state), 0.0) if not self.may_fall(state) else 0.0
        if not (self.is_held(state) or self.may_fall(state)):
            grip = find_grip(state, self.thing)
            left += float(np.linalg.norm(grip.point - state.hand)) + GRASP_M
        return share_done(
            left, of_steps=STEPS_SHOWN_AS_ZERO_PROGRESS, metres_per_step=METRES_PER_STEP
        )

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        """Return the thing's place and the middle of the basket's opening."""
        return self._pose(state).position, self._basket(state) + [0.0, 0.0, RIM_M]

    @property
    def _grocery(self) -> Grocery:
        return grocery_of(self.thing)

    def _pose(self, state: SceneState) -> Pose:
        return state.thing(self.thing)

    def _basket(self, state: SceneState) -> Vector3:
        return state.thing(self.basket).position

    def _above_rim(self, state: SceneState) -> float:
        """Return how far the thing's lowest point is above the rim (metres)."""
        return self._grocery.lowest(self._pose(state)) - float(self._basket(state)[2]) - RIM_M

    def _sticks_out(self, state: SceneState) -> Vector3:
        """Return how much too long for the basket the thing is, towards the end it is held by.

        Something that lies, and is longer than the basket, is let go with that end over the rim:
        the other end falls in, and it slides after.
        """
        pose, axis = self._pose(state), int(np.argmax(self._grocery.half_size))
        lengthwise = pose.rotation[:, axis] * self._grocery.half_size[axis]
        length = across(lengthwise)
        surplus = max(length - INSIDE_HALF_M, 0.0)
        out: Vector3 = lengthwise * np.array([1.0, 1.0, 0.0]) * surplus / max(length, 1e-9)
        return out

    def _drop(self, state: SceneState) -> Drop:
        return LYING if across(self._sticks_out(state)) > 0.0 else UPRIGHT

    def _way(self, state: SceneState) -> Vector3:
        return self._basket(state) + self._sticks_out(state) - self._pose(state).position

    def _let_go(self, state: SceneState) -> NDArray[np.float64]:
        grip = find_grip(state, self.thing)
        has_fallen = abs(grip.point[2] - state.hand[2]) > 0.03
        if has_fallen or state.aperture > 0.075:
            move = np.array([0.0, 0.0, np.clip(FREE_M - state.hand[2], -0.05, 0.05)])
        else:
            move = 0.5 * self._way(state) * np.array([1.0, 1.0, 0.0])
        return _act(state, move, close=False)

    def _carry(self, state: SceneState) -> NDArray[np.float64]:
        move, above = self._way(state), self._above_rim(state)
        off = across(move)
        if off > INSIDE_HALF_M:  # clear of the rim and of other things before crossing
            move[:2] *= ramp(above, -0.09, 0.0)
        lowest = self._drop(state).lowest
        height = lowest + (CROSSING_M - lowest) * funnel(off, start=0.02, width=0.03)
        move[2] = height - above
        return _act(state, move, close=True)


def _take(state: SceneState, grip: Grip) -> NDArray[np.float64]:
    """Come down around the thing with open fingers, and close them where it is between them."""
    error = grip.point - state.hand
    off = across(error)
    sideways = _sideways(error, grip)
    room = (OPEN_M - grip.width) / 2
    has_begun = state.aperture < OPENS_TO_M
    # Wider once the fingers move: a grasp that has begun is finished, not begun again.
    tolerance, depth = (0.022, 0.022) if has_begun else (0.55 * room, 0.007)
    is_around = (
        sideways < tolerance and abs(error[2]) < depth and state.aperture > grip.width - ABOUT_M
    )
    if is_around:
        move = 0.5 * error
    else:
        turn = rotation_vector(grip.rotation @ state.hand_rotation.T)
        stays_up = max(
            funnel(sideways, start=0.35 * room, width=0.9 * room),
            ramp(float(np.linalg.norm(turn)), 0.12, 0.3),
            float(has_begun),
        )
        move = error
        move[2] += stays_up * max(0.09, TRAVEL_M - grip.point[2])
        if off > 0.02:  # beside the thing and too low: rise first
            move[:2] *= ramp(-move[2], -0.05, -0.02)
    return _act(state, move, close=is_around, wanted_rotation=grip.rotation)


def _sideways(error: Vector3, grip: Grip) -> float:
    """Return the horizontal error, of which the part along the fingers counts half."""
    closing, along = grip.rotation[:2, 1] @ error[:2], grip.rotation[:2, 0] @ error[:2]
    return float(np.hypot(closing, 0.5 * along))


def _act(
    state: SceneState, move: Vector3, *, close: bool, wanted_rotation: Rotation = HAND_DOWN
) -> NDArray[np.float64]:
    """Return the action for `move`; where the arm is stretched out, with a stronger pull back.

    The controller has little hold along a straight arm, and a weak pull leaves it there.
    """
    outwards = state.hand * [1.0, 1.0, 0.0] - [SHOULDER[0], SHOULDER[1], 0.0]
    outwards /= max(float(np.linalg.norm(outwards)), 1e-9)
    wrist = state.hand - WRIST_M[1] * state.hand_rotation[:, 2] - WRIST_M[0] * outwards
    stretch = ramp(float(np.linalg.norm(wrist - SHOULDER)), *STRETCHED_M)
    pull = min(float(move @ outwards), 0.0) * PULL * stretch
    return action_for(
        move + pull * outwards,
        close=close,
        hand_rotation=state.hand_rotation,
        wanted_rotation=wanted_rotation,
    )
