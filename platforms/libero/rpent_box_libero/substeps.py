# SPDX-License-Identifier: Apache-2.0
"""The physics steps within a control step: the same numbers as robosuite's, for half of the work.

A control step is 25 physics steps. Robosuite solves three times in each (before the controller, in
it, and while integrating), and measures positions, contacts and velocities anew each time, although
nothing has moved in between. MuJoCo's solver starts from its last solution, so the three solutions
must stay; only what they are solved for is measured once.

One thing may have moved: MuJoCo scales quaternions to length 1 each time it measures. Most are as
long then as they can be written, and stay; where scaling turns the last bit of one to and fro,
everything is measured as often as in robosuite.

The controller's arithmetic is robosuite's own, operation by operation, without looking names up and
measuring the same Jacobian four times.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray
from robosuite.controllers.osc import OperationalSpaceController
from robosuite.utils.control_utils import (
    nullspace_torques,
    opspace_matrices,
    orientation_error,
)

from rpent_box.errors import SimulatorError
from rpent_box_libero.simulation import LeanSim

_VELOCITIES_TOO = mujoco.mjtStage.mjSTAGE_VEL
"""Stage up to which everything is measured already: positions, contacts, velocities."""


class ArmSubsteps:
    """One arm's control between two actions, while its goal stands still. Lives for one reset.

    Leaves everything in robosuite's robot, controller and gripper as their own code would.
    """

    def __init__(self, robot: Any, sim: LeanSim) -> None:  # noqa: ANN401
        _require_known(robot)
        self._robot, self._controller, self._sim = robot, robot.controller, sim
        self._model, self._data = sim.model._model, sim.data._data
        self._site = sim.model.site_name2id(robot.controller.eef_name)
        self._qpos = np.array(robot.controller.qpos_index)
        self._qvel = np.array(robot.controller.qvel_index)
        nv = self._model.nv
        self._jacobian_pos, self._jacobian_ori = np.zeros((3, nv)), np.zeros((3, nv))
        self._mass = np.zeros((nv, nv))
        self._arm = np.array(robot._ref_joint_actuator_indexes)
        self._lowest, self._highest = robot.torque_limits
        fingers = np.array([sim.model.actuator_name2id(name) for name in robot.gripper.actuators])
        low, high = self._model.actuator_ctrlrange[fingers].T
        self._fingers = fingers
        self._finger_bias, self._finger_weight = 0.5 * (high + low), 0.5 * (high - low)

    def act(self, action: NDArray[Any]) -> None:
        """Set the motors for the next physics step. The goal of `action` was set before."""
        # Robosuite's controller measures everything again, which changes the solver's memory.
        self._sim.is_measured = self._quaternions_stay()
        if self._sim.is_measured:
            mujoco.mj_forwardSkip(self._model, self._data, _VELOCITIES_TOO, 1)
        else:
            mujoco.mj_forward(self._model, self._data)
        self._measure_arm()
        torques = self._torques()
        robot = self._robot
        robot.torques = np.minimum(np.maximum(torques, self._lowest), self._highest)
        fingers = robot.gripper.format_action(action[self._controller.control_dim :])
        control = self._data.ctrl
        control[self._fingers] = self._finger_bias + self._finger_weight * fingers
        control[self._arm] = robot.torques

    def _quaternions_stay(self) -> bool:
        scaled: NDArray[np.float64] = self._data.qpos.copy()
        before = scaled.tobytes()
        mujoco.mj_normalizeQuat(self._model, scaled)
        return scaled.tobytes() == before

    def _measure_arm(self) -> None:
        arm, model, data = self._controller, self._model, self._data
        arm.ee_pos = data.site_xpos[self._site].copy()
        arm.ee_ori_mat = data.site_xmat[self._site].reshape(3, 3).copy()
        mujoco.mj_jacSite(model, data, self._jacobian_pos, self._jacobian_ori, self._site)
        arm.ee_pos_vel = np.dot(self._jacobian_pos, data.qvel)
        arm.ee_ori_vel = np.dot(self._jacobian_ori, data.qvel)
        arm.joint_pos = data.qpos[self._qpos]
        arm.joint_vel = data.qvel[self._qvel]
        # How these lie in memory decides how they are multiplied, and so their last bits.
        arm.J_pos = self._jacobian_pos[:, self._qvel]
        arm.J_ori = self._jacobian_ori[:, self._qvel]
        arm.J_full = np.concatenate((arm.J_pos, arm.J_ori))
        mujoco.mj_fullM(model, self._mass, data.qM)
        arm.mass_matrix = self._mass[self._qvel, :][:, self._qvel]

    def _torques(self) -> NDArray[np.float64]:
        arm = self._controller
        orientation = orientation_error(arm.goal_ori, arm.ee_ori_mat)
        force = (arm.goal_pos - arm.ee_pos) * arm.kp[0:3] + -arm.ee_pos_vel * arm.kd[0:3]
        torque = orientation * arm.kp[3:6] + -arm.ee_ori_vel * arm.kd[3:6]
        _, lambda_pos, lambda_ori, nullspace = opspace_matrices(
            arm.mass_matrix, arm.J_full, arm.J_pos, arm.J_ori
        )
        wrench = np.concatenate((np.dot(lambda_pos, force), np.dot(lambda_ori, torque)))
        torques: NDArray[np.float64]
        torques = np.dot(arm.J_full.T, wrench) + self._data.qfrc_bias[self._qvel]
        torques += nullspace_torques(
            arm.mass_matrix, nullspace, arm.initial_joint, arm.joint_pos, arm.joint_vel
        )
        arm.torques = torques
        arm.new_update = True
        return torques


def _require_known(robot: Any) -> None:  # noqa: ANN401
    arm = robot.controller
    known = (
        type(arm) is OperationalSpaceController
        and arm.impedance_mode == "fixed"
        and arm.uncoupling
        and arm.interpolator_pos is None
        and arm.interpolator_ori is None
        and robot.has_gripper
    )
    if not known:
        raise SimulatorError(
            f"the arm is controlled by {type(arm).__name__} ({arm.impedance_mode}), with settings "
            "that this platform does not know; wanted LIBERO's own: OSC_POSE without interpolation",
            hint="Install the simulator again: rpent-box build libero",
        )
