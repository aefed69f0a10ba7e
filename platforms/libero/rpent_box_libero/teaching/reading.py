# SPDX-License-Identifier: Apache-2.0
"""Read a `SceneState` out of MuJoCo. Import this module inside `prepared_process`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.state import Pose, SceneState

_ONE_DOF = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


class Poses(Mapping[str, Pose]):
    """Name → pose, made when asked for: a scene has a hundred bodies, and an expert needs four."""

    def __init__(
        self,
        rows: Mapping[str, int],
        positions: NDArray[np.float64],
        rotations: NDArray[np.float64],
    ) -> None:
        """Take name → row, positions [rows, 3] and rotation matrices [rows, 9]."""
        self._rows, self._positions, self._rotations = rows, positions, rotations

    def __getitem__(self, name: str) -> Pose:
        row = self._rows[name]
        return Pose(self._positions[row], self._rotations[row].reshape(3, 3))

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class SceneReader:
    """Looks names up once, for as long as a simulation lives."""

    def __init__(self, sim: Any, robot: Any) -> None:  # noqa: ANN401 - robosuite is untyped
        self.sim = sim
        model = sim.model._model
        self._model, self._data = model, sim.data._data
        self._bodies = {model.body(row).name: row for row in range(model.nbody)}
        self._sites = {model.site(row).name: row for row in range(model.nsite)}
        one_dof = [row for row in range(model.njnt) if model.jnt_type[row] in _ONE_DOF]
        self._joints = [model.joint(row).name for row in one_dof]
        self._joint_addresses = model.jnt_qposadr[one_dof]
        self._hand = self._bodies[robot.robot_model.eef_name]
        self._tip = int(robot.eef_site_id)
        self._fingers = list(robot._ref_gripper_joint_pos_indexes)

    def read(self) -> SceneState:
        """Return where things are now; a step leaves MuJoCo's positions one substep behind."""
        data = self._data
        mujoco.mj_kinematics(self._model, data)
        bodies = Poses(self._bodies, data.xpos.copy(), data.xmat.copy())
        sites = Poses(self._sites, data.site_xpos.copy(), data.site_xmat.copy())
        left, right = data.qpos[self._fingers]
        return SceneState(
            hand=data.site_xpos[self._tip].copy(),
            hand_rotation=data.xmat[self._hand].reshape(3, 3).copy(),
            aperture=float(left - right),
            bodies=bodies,
            sites=sites,
            joints=dict(zip(self._joints, data.qpos[self._joint_addresses].tolist(), strict=True)),
        )
