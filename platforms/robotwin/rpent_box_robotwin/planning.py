# SPDX-License-Identifier: Apache-2.0
"""How a hand gets to a pose: joint angles for it, and a timed path there.

RoboTwin plans hand poses with cuRobo, which needs CUDA. Its other planner, around mplib, hands the
six angles of an arm to mplib as if they were the first six joints of the whole robot, wheels
included, so its inverse kinematics starts from another posture and nearly always finds nothing; the
arm then stays where it is and nobody is told.

Here the same solver starts from the arm's own set-points, and the arm goes straight to the solution
in joint space, timed as joint commands are. Nothing is drawn at random, so equal targets give equal
paths. Like joint commands, a path is not checked for collisions.
"""

from __future__ import annotations

import math
from typing import Any

import mplib
import numpy as np
from numpy.typing import NDArray

TIME_STEP_S = 1 / 250
"""RoboTwin's physics step; a path has one row per step."""
POSITION_TOLERANCE_M = 1e-4
ROTATION_TOLERANCE_RAD = 1e-3
"""How exactly joint angles must reach the pose to count as a solution."""
AT_REST_RAD = 1e-4
"""An arm with less than this to move is there already."""
TOO_SHORT_TO_TIME_RAD = 2e-3
"""toppra finds no timing for some motions (one in 60 of 1e-4 rad, one in 1500 of 2e-3, none seen of
1e-2). An arm that has less than this to move is then as good as there."""
OTHER_STARTS = 32
"""Postures to solve from when the arm's own leads nowhere."""
LIKELY_RANGE_RAD = math.pi
"""Where those postures are, within the joint limits, which the robot's file sets at ten radians."""


class HandPlanner:
    """Plans for one arm of a built scene. `plan` is what RoboTwin's own loop asks for a path."""

    def __init__(self, robot: Any, side: str) -> None:  # noqa: ANN401 - the runtime has no types
        self._robot = robot
        self._side = side
        self._entity = getattr(robot, f"{side}_entity")
        self._joints = getattr(robot, f"{side}_arm_joints")
        self._planner = getattr(robot, f"{side}_mplib_planner").planner
        self._columns = np.asarray(self._planner.move_group_joint_indices)
        self._limits = np.asarray(self._planner.joint_limits, dtype=np.float64)[self._columns]
        self._held = [index not in self._columns for index in range(len(self._planner.joint_types))]
        self.failed = False
        """The last target could not be planned: the arm was held."""

    def plan(self, pose: NDArray[np.float64]) -> dict[str, Any]:
        """Return RoboTwin's result: `status`, and with `Success` `position` and `velocity` [n, 6].

        `pose` is the hand's, position and quaternion w, x, y, z in the world. Any other status
        makes RoboTwin hold this arm for 50 steps: `Rest` when it is as good as there, else `Fail`.
        """
        start = self._set_points()
        goal = self.solve(pose)
        self.failed = goal is None
        if goal is None:
            return {"status": "Fail"}
        to_move_rad = float(np.abs(goal - start).max())
        if to_move_rad < AT_REST_RAD:
            return {"status": "Rest"}
        try:
            _, position, velocity, _, _ = self._planner.TOPP(np.vstack((start, goal)), TIME_STEP_S)
        except RuntimeError:
            # Joint commands that cannot be timed leave their arm where it is, too.
            self.failed = to_move_rad > TOO_SHORT_TO_TIME_RAD
            return {"status": "Fail" if self.failed else "Rest"}
        return {"status": "Success", "position": position, "velocity": velocity}

    def solve(self, pose: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the arm's joint angles [6] for `pose`, or None when it cannot be reached.

        The solution next to the set-points is taken, as a joint command would be. One that is only
        found from another posture must keep the robot clear of itself and of the table.
        """
        target = self._in_base(pose)
        start = self._set_points()
        near = self._solve_from(start, target)
        if near is not None:
            return near
        found = [self._solve_from(other, target) for other in self._other_starts()]
        clear = [angles for angles in found if angles is not None and self._is_clear(angles)]
        return min(clear, key=lambda angles: float(np.linalg.norm(angles - start)), default=None)

    def _set_points(self) -> NDArray[np.float64]:
        return np.array([float(joint.get_drive_target()[0]) for joint in self._joints])

    def _in_base(self, pose: NDArray[np.float64]) -> mplib.Pose:
        """Return where the last link has to be, seen from the robot's base, for the hand's pose."""
        link = self._robot._trans_from_end_link_to_gripper(pose, arm_tag=self._side)
        base = self._planner.robot.get_base_pose()
        return base.inv() * mplib.Pose(link.p, link.q)

    def _solve_from(
        self, start: NDArray[np.float64], target: mplib.Pose
    ) -> NDArray[np.float64] | None:
        model, link = self._planner.pinocchio_model, self._planner.move_group_link_id
        everything = self._with_arm(start)
        solved, _, _ = model.compute_IK_CLIK(link, target, everything, self._held, 1e-6, 500)
        model.compute_forward_kinematics(solved)
        if not _is_close(model.get_link_pose(link), target):
            return None
        # A full turn more or less is the same posture: take the turn that is nearest to the arm's.
        current = self._set_points()
        turned = current + np.remainder(solved[self._columns] - current + np.pi, 2 * np.pi) - np.pi
        inside = (turned >= self._limits[:, 0]) & (turned <= self._limits[:, 1])
        return turned if inside.all() else None

    def _other_starts(self) -> NDArray[np.float64]:
        """Return the same postures every time, [OTHER_STARTS, 6]."""
        low, high = np.clip(self._limits.T, -LIKELY_RANGE_RAD, LIKELY_RANGE_RAD)
        return np.random.default_rng(0).uniform(low, high, (OTHER_STARTS, len(low)))

    def _is_clear(self, angles: NDArray[np.float64]) -> bool:
        state = self._with_arm(angles)
        return not (
            self._planner.check_for_self_collision(state)
            or self._planner.check_for_env_collision(state)
        )

    def _with_arm(self, angles: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the measured posture of the whole robot with this arm at `angles`."""
        everything = np.array(self._entity.get_qpos(), dtype=np.float64)
        everything[self._columns] = angles
        return everything


def _is_close(reached: mplib.Pose, target: mplib.Pose) -> bool:
    if not (np.isfinite(reached.p).all() and np.isfinite(reached.q).all()):
        return False
    apart_m = float(np.linalg.norm(np.asarray(reached.p) - np.asarray(target.p)))
    cosine = abs(float(np.dot(reached.q, target.q)))
    apart_rad = 2 * math.acos(min(1.0, cosine))
    return apart_m < POSITION_TOLERANCE_M and apart_rad < ROTATION_TOLERANCE_RAD
