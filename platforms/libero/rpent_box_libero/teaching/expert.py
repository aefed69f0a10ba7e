# SPDX-License-Identifier: Apache-2.0
"""A scripted expert that picks an object up by its rim and puts it on a goal object.

It is a pure function of the simulator's state and remembers no phase, so any state that a student
reaches has exactly one label. What would be a phase elsewhere is a funnel here: the height aimed at
grows with the horizontal error, so the hand comes down only where it is in place.

    height aimed at
      travel ┤        ╭──────────
             │       ╱
             │      ╱
        rest ┼─────╯
             └─────┬───┬─────────  horizontal error
                  0.010 0.035 m
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector3 = NDArray[np.float64]

POSITION_SCALE_M = 0.05
"""Metres that an action of 1.0 asks for in one control step."""
ROTATION_SCALE_RAD = 0.5
FUNNEL_START_M = 0.010
FUNNEL_WIDTH_M = 0.025
STEPS_SHOWN_AS_ZERO_PROGRESS = 80.0
METRES_PER_STEP = 0.011
"""The expert's average speed; turns distances into steps for `progress`."""

HAND_DOWN = np.array([[0.9984, 0.0, -0.0568], [0.0, -1.0, 0.0], [-0.0568, 0.0, -0.9984]])
"""The hand's rotation at the robot's home pose, world frame."""


@dataclass(frozen=True)
class SceneState:
    """What the expert knows, all in the world frame, metres."""

    hand: Vector3
    """The point between the finger tips."""
    hand_rotation: NDArray[np.float64]
    """[3, 3], of the body that carries the gripper."""
    aperture: float
    """Distance between the fingers."""
    thing: Vector3
    """The object to move."""
    thing_upright: float
    """z component of the object's own z axis; 1.0 stands."""
    goal: Vector3
    """The object to put it on."""


@dataclass(frozen=True)
class Grip:
    """Where an object is taken, and how its state is read."""

    offset: tuple[float, float, float] = (0.0, -0.045, 0.025)
    """From the object's origin to the grasp: its rim on the robot's right, a little above."""
    held_aperture: tuple[float, float] = (0.004, 0.0125)
    """The fingers stall in this range when the wall is between them.

    Contacts say less: a rim is held by the finger tips, which robosuite's grasp test ignores.
    """
    held_reach: float = 0.09
    placed_radius: float = 0.022
    placed_height: float = 0.014
    goal_lifted: float = 0.93
    """A goal object above this height hangs between the fingers too."""


@dataclass(frozen=True)
class Expert:
    """Acts in `libero.osc_pose.delta.v1`."""

    grip: Grip = Grip()
    gain: float = 1.6

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""
        if self.is_placed(state) or self._pinches_goal(state):
            move, close = self._let_go(state), False
        elif self.is_held(state):
            move, close = self._carry(state), True
        else:
            move, close = self._reach(state)
        turn = 0.6 * rotation_vector(HAND_DOWN @ state.hand_rotation.T) / ROTATION_SCALE_RAD
        arm = np.clip(np.concatenate([self.gain * move / POSITION_SCALE_M, turn]), -1.0, 1.0)
        return np.append(arm, 1.0 if close else -1.0)

    def is_held(self, state: SceneState) -> bool:
        """Whether the object's wall is between the fingers."""
        low, high = self.grip.held_aperture
        near = bool(np.linalg.norm(state.hand - state.thing) < self.grip.held_reach)
        return low < state.aperture < high and near

    def is_placed(self, state: SceneState) -> bool:
        """Whether the object rests on the goal, or is about to when let go."""
        height = state.thing[2] - state.goal[2]
        return _off_goal(state) < self.grip.placed_radius and height < self.grip.placed_height

    def is_lost(self, state: SceneState) -> bool:
        """Whether the scene is beyond what this expert can mend."""
        tipped = state.thing_upright < 0.8
        goal_gone = state.goal[2] > self.grip.goal_lifted + 0.03
        return bool(tipped or goal_gone or _off_goal(state) > 0.25)

    def progress(self, state: SceneState) -> float:
        """Return how much of the task is done, 0 to 1, from the steps that distances stand for."""
        if _off_goal(state) < 0.03 and state.thing[2] - state.goal[2] < 0.012:
            return 1.0
        carry = self._carry_length(state)
        left = carry if self.is_held(state) else self._reach_length(state) + carry + 0.09
        return float(np.clip(1.0 - left / METRES_PER_STEP / STEPS_SHOWN_AS_ZERO_PROGRESS, 0.0, 1.0))

    def _let_go(self, state: SceneState) -> Vector3:
        rise = 0.05 if state.aperture > 0.06 else 0.0
        return np.array([0.0, 0.0, 0.05 if self._pinches_goal(state) else rise])

    def _pinches_goal(self, state: SceneState) -> bool:
        return self.is_held(state) and bool(state.goal[2] > self.grip.goal_lifted)

    def _carry(self, state: SceneState) -> Vector3:
        off = _off_goal(state)
        height = state.thing[2] - state.goal[2]
        across = (state.goal - state.thing)[:2]
        if off > 0.03:  # lift before crossing, or the object's foot pushes the goal away
            across = across * np.clip((height - 0.02) / 0.03, 0.0, 1.0)
        return np.append(across, 0.09 * _funnel(off) - height)

    def _reach(self, state: SceneState) -> tuple[Vector3, bool]:
        grasp = state.thing + np.array(self.grip.offset)
        error = grasp - state.hand
        off = float(np.linalg.norm(error[:2]))
        # Wider once the fingers move: a grasp that has begun is finished, not begun again.
        tolerance = 0.022 if state.aperture < 0.074 else 0.010
        if off < tolerance and abs(error[2]) < tolerance and state.aperture > 0.003:
            return 0.5 * error, True
        above = 0.10 * _funnel(off)
        if off > 0.02 and -error[2] < above - 0.03:  # beside the object and too low: rise first
            error[:2] *= 0.3
        error[2] += above
        return error, False

    def _carry_length(self, state: SceneState) -> float:
        off, height = _off_goal(state), state.thing[2] - state.goal[2]
        if not self.is_held(state):
            return 0.18 + off
        return float(max(0.09 - height, 0.0) + off + 0.09 if off > 0.03 else max(height, 0.0))

    def _reach_length(self, state: SceneState) -> float:
        return float(np.linalg.norm(state.hand - state.thing - np.array(self.grip.offset)))


def rotation_vector(rotation: NDArray[np.float64]) -> Vector3:
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


def _off_goal(state: SceneState) -> float:
    return float(np.linalg.norm((state.thing - state.goal)[:2]))


def _funnel(off: float) -> float:
    return float(np.clip((off - FUNNEL_START_M) / FUNNEL_WIDTH_M, 0.0, 1.0))
