# SPDX-License-Identifier: Apache-2.0
"""LIBERO's problem classes, built at the first reset, compiled once, with gated cameras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from robosuite.environments.base import MujocoEnv
from robosuite.utils.errors import RandomizationError

from rpent_box.errors import SimulatorError
from rpent_box_libero.gate import CameraGate
from rpent_box_libero.snapshot import SceneSnapshot
from rpent_box_libero.substeps import ArmSubsteps

_PLACEMENT_ATTEMPTS = 50


class CompiledOnce(MujocoEnv):  # type: ignore[misc]  # robosuite is untyped
    """Mixed in before a problem class; `compiled_once` does it.

    The stock constructor builds a whole scene that the first reset throws away. Here the
    constructor builds nothing, and `reset_scene` everything.
    """

    gate: CameraGate
    sim: Any = None
    _observables: dict[str, Any]
    _snapshot: SceneSnapshot | None = None
    _attempt = 0
    """0: still in the constructor."""

    def reset_scene(self, seed: int) -> None:
        """Build the scene that a new process with this seed would see at its first reset.

        Raises `SimulatorError` when the objects cannot be placed without overlap.
        """
        np.random.seed(seed)  # robosuite and LIBERO draw from numpy's global generator
        for self._attempt in range(1, _PLACEMENT_ATTEMPTS + 1):
            try:
                self.reset()
            except RandomizationError:
                continue
            return
        raise SimulatorError(
            f"the objects of {self.bddl_file_name} could not be placed with seed {seed} in "
            f"{_PLACEMENT_ATTEMPTS} attempts",
            hint="Use another --seed.",
        )

    def forget_scene(self) -> None:
        """Let the next reset compile the scene again."""
        self._snapshot = None

    def release(self) -> None:
        """Free the simulation and the GL context."""
        self.forget_scene()
        self.close()

    def _load_model(self) -> None:
        if not self._attempt:
            return
        # LIBERO appends its open/close and on/off samplers at each load and never removes them, so
        # that every reset draws more random numbers than the one before. A new process has loaded
        # once in the constructor and once per attempt: that many copies, whatever was played here.
        self.object_property_initializers.clear()
        super()._load_model()
        self.object_property_initializers *= 1 + self._attempt

    def _initialize_sim(self, xml_string: str | None = None) -> None:
        if not self._attempt:
            return
        xml = xml_string or self.model.get_xml()
        if self._snapshot is None or self._snapshot.xml != xml:
            self._snapshot = None
            self._snapshot = SceneSnapshot(xml)
        self.sim = self._snapshot.renew()
        self.sim.forward()
        self.initialize_time(self.control_freq)
        if self.sim._render_context_offscreen is not None:
            self.sim.forward()  # as a new GL context would, which leaves its mark on the solver

    def _destroy_sim(self) -> None:
        if self.sim is not None:
            self._make_context_current()
            if self._snapshot is not None:
                self._snapshot.keep_context(self.sim)
        super()._destroy_sim()

    def _make_context_current(self) -> None:
        # MuJoCo frees meshes and textures by number, in whichever GL context is current: another
        # environment's, if that one drew last.
        context = self.sim._render_context_offscreen
        if context is not None:
            context.gl_ctx.make_current()

    def _reset_internal(self) -> None:
        if self._attempt:
            super()._reset_internal()
            self._arm = ArmSubsteps(self.robots[0], self.sim)

    def _pre_action(self, action: Any, policy_step: bool = False) -> None:  # noqa: ANN401, FBT001, FBT002
        if policy_step:
            super()._pre_action(action, policy_step)
        else:
            self._arm.act(action)

    def _setup_observables(self) -> Any:  # noqa: ANN401
        if not self._attempt:
            return {}
        made = super()._setup_observables()
        if not self._observables:
            self._observables = made
        return made

    def _create_camera_sensors(
        self,
        cam_name: str,
        cam_w: int,
        cam_h: int,
        cam_d: bool,  # noqa: FBT001 - robosuite's signature
        cam_segs: Any,  # noqa: ANN401
        modality: str = "image",
    ) -> tuple[list[Callable[..., Any]], list[str]]:
        sensors, names = super()._create_camera_sensors(
            cam_name, cam_w, cam_h, cam_d, cam_segs, modality
        )
        gated = [
            self.gate.wrap(sensor, camera=cam_name, height=cam_h, width=cam_w) for sensor in sensors
        ]
        return gated, names


def compiled_once(problem: Any, gate: CameraGate) -> Any:  # noqa: ANN401
    """Return `problem` with `CompiledOnce` before it.

    It keeps its name, which LIBERO compares with the one in the bddl file.
    """
    return type(problem.__name__, (CompiledOnce, problem), {"gate": gate})
