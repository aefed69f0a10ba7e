# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that picks a bowl up by its rim and puts it on something flat.

It is a pure function of the simulator's state and remembers no phase, so any state that a student
reaches has exactly one label. What would be a phase elsewhere is a funnel here: the height aimed at
grows with the horizontal error, so the hand comes down only where it is in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.skills.ground import Ground
from rpent_box_libero.teaching.skills.motion import (
    HAND_DOWN,
    across,
    action_for,
    funnel,
    holds_wall,
    ramp,
    turned_about_z,
)
from rpent_box_libero.teaching.skills.remaining import share_done
from rpent_box_libero.teaching.state import Rotation, SceneState, Vector3

STEPS_SHOWN_AS_ZERO_PROGRESS = 130.0

TRAVEL_M = 0.09
"""Height above the goal at which a bowl is carried, above the grasp at which the hand comes."""
CARRY_STEP_M = 0.035
"""The furthest aim, relative to the hand, with a bowl in it: jerks make it slip."""
CLEARANCE_M = 0.06
"""Least height above what lies below."""
BETWEEN_WALLS_M = 0.05
"""This far above a grasp in a drawer the fingers come between its walls."""
PRESS_M = 0.018
"""The lowest aim, relative to the hand, from there on."""
FARTHEST_M = 0.85
"""Horizontal distance from the arm's base within which the hand can point down at a bowl."""


@dataclass(frozen=True)
class Grip:
    """Where a bowl is taken, and how its state is read."""

    radius: float = 0.045
    """From the bowl's axis to the grasp: its rim, seen from above."""
    height: float = 0.025
    """From the bowl's origin up to the grasp."""
    turn_rad: float = 0.0
    """Where on the rim: 0 on the robot's left (+y), the hand as it starts; positive
    anticlockwise seen from above, the hand turned as much."""
    opposite: bool = False
    """Whether the rim is taken across the bowl from there, the hand turned the same."""
    held_aperture: tuple[float, float] = (0.0025, 0.0125)
    """The fingers stall in this range when the wall is between them, at the lower end where it has
    slipped to their tips.
    """
    held_reach: float = 0.09
    placed_radius: float = 0.022
    placed_height: float = 0.014

    @property
    def offset(self) -> Vector3:
        """From the bowl's origin to the grasp."""
        sine, cosine = np.sin(self.turn_rad), np.cos(self.turn_rad)
        radius = -self.radius if self.opposite else self.radius
        return np.array([-radius * sine, radius * cosine, self.height])

    @property
    def hand_rotation(self) -> Rotation:
        return turned_about_z(HAND_DOWN, self.turn_rad)


@dataclass(frozen=True)
class Drawer:
    """A drawer that a bowl may lie in: between its walls there is only room for fingers that open
    towards a corner."""

    body: str = "wooden_cabinet_1_cabinet_top"
    corner: tuple[float, float] = (0.10, -0.07)
    """Towards it fingers have most room: on the robot's left in front, in the drawer's frame."""
    half_size: tuple[float, float] = (0.11, 0.10)
    bowl_height: float = 0.18
    """Below this height above the drawer's origin a bowl is between the walls."""
    turns_rad: tuple[float, float] = (0.2, 0.75)
    """So far may the hand be turned for it."""
    room_m: float = 0.09
    """A bowl that has come nearer to the corner leaves fingers no room there, but across itself."""

    def grip(self, state: SceneState, bowl: Vector3, *, otherwise: Grip) -> Grip:
        """Return where on the rim of `bowl` to take it: if it lies in here, where there is room."""
        drawer = state.bodies[self.body]
        x, y, z = drawer.rotation.T @ (bowl - drawer.position)
        inside = abs(x) < self.half_size[0] and abs(y) < self.half_size[1]
        if not inside or z > self.bowl_height:
            return otherwise
        to_corner = drawer.rotation @ [self.corner[0] - x, self.corner[1] - y, 0.0]
        turn_rad = float(np.clip(np.arctan2(-to_corner[0], to_corner[1]), *self.turns_rad))
        return replace(otherwise, turn_rad=turn_rad, opposite=across(to_corner) < self.room_m)


@dataclass(frozen=True)
class PutBowl:
    """Puts `bowl` on `onto`, whatever it stands on or in now."""

    bowl: str = "akita_black_bowl_1"
    onto: str = "plate_1"
    grip: Grip = Grip()
    drawer: Drawer | None = None
    """Where the bowl lies, if it lies in one."""
    ground: Ground = Ground()
    """What stands about, apart from the bowl itself."""
    onto_rests_at: float = 0.90
    """Height at which `onto` stands on the table (metres)."""

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        if self.is_placed(state) or self._pinches_goal(state):
            move, close = self._let_go(state), False
        elif self.is_held(state):
            move, close = self._carry(state), True
        else:
            move, close = self._reach(state)
        return action_for(
            move,
            close=close,
            hand_rotation=state.hand_rotation,
            wanted_rotation=self._grip(state).hand_rotation,
        )

    def is_held(self, state: SceneState) -> bool:
        """Whether the bowl's wall is between the fingers."""
        grip = self.grip
        return holds_wall(
            state, self._bowl(state), aperture=grip.held_aperture, reach=grip.held_reach
        )

    def is_placed(self, state: SceneState) -> bool:
        """Whether the bowl rests on the goal, or is about to when let go."""
        low = self._height(state) < self.grip.placed_height
        return self._off(state) < self.grip.placed_radius and low

    def is_done(self, state: SceneState) -> bool:
        """Whether the bowl stands on the goal, by LIBERO's measure: 0.03 m between the axes."""
        return self._off(state) < 0.03 and self._height(state) < 0.012

    def is_lost(self, state: SceneState) -> bool:
        """Whether the bowl has tipped, fallen down, or is out of reach, or the goal hangs high."""
        bowl = state.thing(self.bowl)
        tipped = bowl.rotation[2, 2] < 0.8
        goal_gone = self._goal(state)[2] > self.onto_rests_at + 0.06
        fallen = bowl.position[2] < self.onto_rests_at - 0.1
        away = across(bowl.position - state.bodies["robot0_base"].position) > FARTHEST_M
        return bool(tipped or goal_gone or fallen or away)

    def progress(self, state: SceneState) -> float:
        """Return how much is done, from the way that is left."""
        if self.is_done(state):
            return 1.0
        carry = self._carry_length(state)
        left = carry if self.is_held(state) else self._reach_length(state) + carry + 0.09
        return share_done(left, of_steps=STEPS_SHOWN_AS_ZERO_PROGRESS)

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        """Return where the bowl and the goal are."""
        return self._bowl(state), self._goal(state)

    def _grip(self, state: SceneState) -> Grip:
        if self.drawer is None:
            return self.grip
        return self.drawer.grip(state, self._bowl(state), otherwise=self.grip)

    def _bowl(self, state: SceneState) -> Vector3:
        return state.thing(self.bowl).position

    def _goal(self, state: SceneState) -> Vector3:
        return state.thing(self.onto).position

    def _off(self, state: SceneState) -> float:
        return across(self._goal(state) - self._bowl(state))

    def _height(self, state: SceneState) -> float:
        return float(self._bowl(state)[2] - self._goal(state)[2])

    def _let_go(self, state: SceneState) -> Vector3:
        rise = 0.05 if state.aperture > 0.06 else 0.0
        return np.array([0.0, 0.0, 0.05 if self._pinches_goal(state) else rise])

    def _pinches_goal(self, state: SceneState) -> bool:
        return self.is_held(state) and bool(self._goal(state)[2] > self.onto_rests_at + 0.03)

    def _carry(self, state: SceneState) -> Vector3:
        bowl, goal = self._bowl(state), self._goal(state)
        off, height = self._off(state), self._height(state)
        step = (goal - bowl)[:2] * min(1.0, CARRY_STEP_M / max(off, 1e-9))
        ground = self._ground_below(state, bowl) - float(goal[2])
        wanted = max(TRAVEL_M, ground + CLEARANCE_M) * funnel(off)
        if off > 0.03:  # lift before crossing, or the bowl's foot pushes things away
            step = step * ramp(height - max(ground, 0.0), 0.02, 0.05)
        return np.append(step, wanted - height)

    def _reach(self, state: SceneState) -> tuple[Vector3, bool]:
        grasp = self._bowl(state) + self._grip(state).offset
        error = grasp - state.hand
        off = across(error)
        # Wider once the fingers move: a grasp that has begun is finished, not begun again.
        tolerance = 0.022 if state.aperture < 0.074 else 0.010
        if off < tolerance and abs(error[2]) < tolerance and state.aperture > 0.003:
            return 0.5 * error, True
        above = self._hand_travel(state, grasp) * funnel(off)
        if off > 0.02:  # beside the bowl and too low: rise first
            error[:2] *= max(0.3, ramp(-error[2] - above, -0.08, -0.03))
        error[2] += above
        if self.drawer is not None and off < 0.04:
            error = _kept_off_walls(error)
        return error, False

    def _hand_travel(self, state: SceneState, grasp: Vector3) -> float:
        ground = self._ground_below(state, state.hand)
        return max(TRAVEL_M + 0.01, ground + CLEARANCE_M + self.grip.height - float(grasp[2]))

    def _ground_below(self, state: SceneState, place: Vector3) -> float:
        return self.ground.height_below(state, place, but=self.bowl)

    def _carry_length(self, state: SceneState) -> float:
        off, height = self._off(state), self._height(state)
        if not self.is_held(state):
            return 0.18 + off
        return float(max(TRAVEL_M - height, 0.0) + off + 0.09 if off > 0.03 else max(height, 0.0))

    def _reach_length(self, state: SceneState) -> float:
        return float(np.linalg.norm(state.hand - self._bowl(state) - self._grip(state).offset))


def _kept_off_walls(error: Vector3) -> Vector3:
    """Return how to move by `error` down into a drawer.

    A fast descent drives the hand sideways, so more is asked for than is missing. A finger that has
    met a wall slides off it only if it is pressed down less than it is drawn away.
    """
    if error[2] < -BETWEEN_WALLS_M:
        return error * [2.0, 2.0, 1.0]
    return np.array([3.0 * error[0], 3.0 * error[1], max(error[2], -PRESS_M)])
