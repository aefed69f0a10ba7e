# SPDX-License-Identifier: Apache-2.0
"""One LIBERO task in robosuite: built once, reset often, drawn when asked.

Import this module inside `prepared_process`.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from libero.libero import envs
from libero.libero.envs.bddl_utils import get_problem_info
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image, Observation
from rpent_box_libero.control import REST, SETTLE_STEPS
from rpent_box_libero.gate import CameraGate
from rpent_box_libero.observation import CAMERA_ROLES, observation_from, upright
from rpent_box_libero.problem import compiled_once
from rpent_box_libero.sentence import Sentence, sentence_in_name
from rpent_box_libero.tasks import Task

Raw = Mapping[str, NDArray[Any]]
"""Robosuite's own observation: name → array, images upside down."""


class LiberoEnvironment:
    """The simulator of one task. Owns its GL context; `close` frees both.

    The first reset compiles the scene (3 s); the later ones take 0.1 s and the settling, whatever
    their seed, and give what a new process would give.
    """

    def __init__(self, task: Task, *, image_size: int = 256, sentence: Sentence = "scene") -> None:
        self.task = task
        self.instruction = (
            task.instruction() if sentence == "scene" else sentence_in_name(task.name)
        )
        """What the model is told."""
        self.image_size = image_size
        self.gate = CameraGate()
        self.restarts = 0
        """Control steps since the last reset in which the physics blew up. MuJoCo then puts
        everything where the scene's XML has it, things at the origin, and simulates on."""
        self._wrapper = _construct(task, self.gate, image_size)
        self._raw: Raw = {}
        self._is_frozen = False
        """Whether what the first reset made is out of the garbage collector's way."""

    def look_through(self, cameras: Collection[str] | None) -> None:
        """Draw and show these of robosuite's cameras from the next reset on; None: all of them."""
        self.gate.cameras = None if cameras is None else frozenset(cameras)

    def reset(
        self,
        *,
        seed: int,
        init_state: NDArray[np.float64] | None = None,
        settle_steps: int = SETTLE_STEPS,
        render: bool = True,
    ) -> None:
        """Build the scene of `seed`, move it to `init_state`, let it settle, and draw it.

        Without `init_state` things stay where the seed put them. Fixtures always do: the recorded
        states do not hold them. Raises `SimulatorError` when the things cannot be placed.
        """
        self.restarts = 0
        self.gate.is_open = render and not settle_steps
        try:
            self.problem.reset_scene(seed)
            if init_state is not None:
                self._wrapper.set_init_state(init_state)
        finally:
            self.gate.is_open = False
        self._raw = self.problem._get_observations()
        if not self._is_frozen:
            # Robosuite collects garbage at each reset, which takes 0.1 s while it goes through
            # everything that was imported and compiled.
            gc.freeze()
            self._is_frozen = True
        for step in range(settle_steps):
            self.step(REST, render=render and step == settle_steps - 1)

    def step(self, action: NDArray[Any], *, render: bool) -> bool:
        """Execute one action [7]; return whether the task is solved.

        Without `render` the images keep their last content; everything else is measured.
        """
        before_s = self.problem.sim.data.time
        self.gate.is_open = render
        try:
            self._raw, _, solved, _ = self._wrapper.step(action)
        finally:
            self.gate.is_open = False
        self.restarts += self.problem.sim.data.time <= before_s  # its clock starts over, too
        return bool(solved)

    def observe(self) -> Observation:
        """Return what was sampled in the last control step. The arrays are the caller's."""
        return observation_from(self._raw, self.instruction, is_used=self.gate.is_used)

    @property
    def raw(self) -> Raw:
        """What was sampled in the last control step, in robosuite's names: things' poses too."""
        return self._raw

    @property
    def problem(self) -> Any:  # noqa: ANN401 - robosuite is untyped
        """LIBERO's problem, a robosuite environment."""
        return self._wrapper.env

    def is_solved(self) -> bool:
        """Return whether the goal holds now."""
        return bool(self._wrapper.check_success())

    def state(self) -> NDArray[np.float64]:
        """Return a copy of the simulator's state [1 + nq + nv]: time, positions, velocities."""
        state: NDArray[np.float64] = self._wrapper.get_sim_state()
        return state

    def draw(self, state: NDArray[np.float64]) -> dict[str, Image]:
        """Move the scene to `state` and return what every camera sees; only `reset` may follow."""
        self._wrapper.set_state(state)
        self.problem.sim.forward()
        self.problem._post_process()  # burners light up
        size = self.image_size
        return {
            role: upright(self.problem.sim.render(camera_name=camera, width=size, height=size))
            for camera, role in CAMERA_ROLES.items()
        }

    def close(self) -> None:
        """Free the simulation and the GL context. May be called twice."""
        if self._wrapper is not None:
            gc.unfreeze()
            self.problem.release()
            self._wrapper = None
            self._raw = {}


def _construct(task: Task, gate: CameraGate, image_size: int) -> Any:  # noqa: ANN401
    problems = envs.TASK_MAPPING
    name = get_problem_info(str(task.bddl_file))["problem_name"]
    stock = problems[name]
    problems[name] = compiled_once(stock, gate)
    try:
        return envs.OffScreenRenderEnv(
            bddl_file_name=str(task.bddl_file),
            camera_names=list(CAMERA_ROLES),
            camera_heights=image_size,
            camera_widths=image_size,
            ignore_done=True,  # who plays counts the steps; robosuite would refuse the 1001st
        )
    finally:
        problems[name] = stock
