# SPDX-License-Identifier: Apache-2.0
"""One lesson's simulator as the teacher needs it: fresh scenes, saved states, unseen steps.

It is the platform's own environment, so frames and physics are the ones that a student meets. The
recorded initial states, on which models are judged, are never read here. Import this module inside
`prepared_process`.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation
from rpent_box.errors import SimulatorError
from rpent_box_libero.control import REST, SETTLE_STEPS
from rpent_box_libero.environment import LiberoEnvironment
from rpent_box_libero.sentence import sentence_in_name
from rpent_box_libero.suites import find_suite
from rpent_box_libero.tasks import find_task, task_name
from rpent_box_libero.teaching.lessons import Lesson
from rpent_box_libero.teaching.reading import SceneReader
from rpent_box_libero.teaching.state import SceneState

BUMPED_M = 0.020
"""A thing that settles further than this from where it was put was pushed by another.

The placement sampler lets things overlap in about a quarter of its samples. A bowl slides 0.015 m
into a ramekin all by itself.
"""
BUMPED_SHARE_KEPT = 0.15
MOST_DRAWS = 50
"""Scenes that are drawn for one episode: one in two can be used where things stand closest."""

_WHOLE = mujoco.mjtState.mjSTATE_INTEGRATION
"""Positions, velocities and controls, and where the solver starts from."""


class SavedState:
    """Everything that `TeachingScene.step_blind` changes."""

    def __init__(self, scene: TeachingScene) -> None:
        model, data = scene.sim.model._model, scene.sim.data._data
        controller = scene.robot.controller
        self._state = np.empty(mujoco.mj_stateSize(model, _WHOLE))
        mujoco.mj_getState(model, data, self._state, _WHOLE)
        self._controller = {
            name: copy(value)
            for name, value in vars(controller).items()
            if isinstance(value, (np.ndarray, bool))
        }
        self._gripper = np.array(scene.robot.gripper.current_action)

    def put_back(self, scene: TeachingScene) -> None:
        """Let the scene go on as if nothing had been since: to the last bit."""
        model, data = scene.sim.model._model, scene.sim.data._data
        controller = scene.robot.controller
        mujoco.mj_setState(model, data, self._state, _WHOLE)
        mujoco.mj_forward(model, data)
        # Measuring has moved the solver's memory, and perhaps a quaternion's last bit.
        mujoco.mj_setState(model, data, self._state, _WHOLE)
        scene.sim.is_measured = False
        for name, value in self._controller.items():
            setattr(controller, name, copy(value))
        scene.robot.gripper.current_action = self._gripper.copy()


class TeachingScene:
    """Holds one lesson's simulator. `sample` begins an episode; not thread-safe."""

    def __init__(self, lesson: Lesson) -> None:
        suite = find_suite(lesson.suite)
        says = task_name(suite, lesson.says)
        self.lesson = lesson
        self.skill = lesson.skill
        self.instruction = find_task(suite.name, says).instruction()
        """The sentence that is taught, as the scene's file of its own task has it."""
        self.instruction_in_name = sentence_in_name(says)
        """The same, as the task's name spells it."""
        self.environment = LiberoEnvironment(find_task(suite.name, task_name(suite, lesson.task)))
        self.environment.instruction = self.instruction
        self.steps = 0
        """Actions since the scene settled."""
        self._reader: SceneReader | None = None

    @property
    def sim(self) -> Any:  # noqa: ANN401 - robosuite is untyped
        return self.environment.problem.sim

    @property
    def robot(self) -> Any:  # noqa: ANN401
        return self.environment.problem.robots[0]

    def sample(
        self, rng: np.random.Generator, *, joint_noise_rad: float, render: bool = True
    ) -> Observation:
        """Begin an episode in a scene that depends on `rng` alone; return what it shows settled.

        Without `render` the images are those of some earlier scene, or missing. Raises
        `SimulatorError` when none of `MOST_DRAWS` scenes can be taught in.
        """
        for _ in range(MOST_DRAWS):
            self._place(rng, joint_noise_rad)
            placed = self._things()
            self._settle(render=render)
            moved = float(np.linalg.norm((self._things() - placed)[:, :2], axis=1).max())
            keep_bumped = rng.random() < BUMPED_SHARE_KEPT
            fit = not self.skill.is_lost(self.state()) and not self.is_solved()
            if fit and (moved < BUMPED_M or keep_bumped):
                return self.environment.observe()
        raise SimulatorError(
            f"none of {MOST_DRAWS} scenes can be used for the lesson {self.lesson.name}: each is "
            "lost or solved before it begins, or its things push each other apart"
        )

    def execute(
        self, actions: NDArray[np.float64], *, render: bool = True
    ) -> tuple[Observation, bool]:
        """Execute [steps, 7]; return what is seen after the last, and whether any solved the task.

        Goes on after success, unlike the platform: what comes then is taught too. Without `render`
        the images keep their last content.
        """
        solved = False
        for row, action in enumerate(actions):
            self.environment.step(action, render=render and row == len(actions) - 1)
            solved |= self.is_solved()
            self.steps += 1
        return self.environment.observe(), solved

    def is_solved(self) -> bool:
        """Return whether what the sentence asks for holds now.

        The scene can tell for its own task; the skill says so for another task's.
        """
        if self.lesson.says == self.lesson.task:
            return self.environment.is_solved()
        return self.skill.is_done(self.state())

    def step_blind(self, action: NDArray[np.float64]) -> None:
        """Execute one action [7] in physics alone: neither sensors nor clocks move on."""
        problem = self.environment.problem
        for substep in range(int(problem.control_timestep / problem.model_timestep)):
            self.sim.forward()
            problem._pre_action(action, substep == 0)
            self.sim.step()

    def label(self, steps: int) -> NDArray[np.float64]:
        """Return the expert's next actions [steps, 7] from here; the scene stays as it is."""
        saved = SavedState(self)
        actions = []
        for step in range(steps):
            actions.append(self.skill.act(self.state()))
            if step < steps - 1:
                self.step_blind(actions[-1])
        saved.put_back(self)
        return np.stack(actions)

    def state(self) -> SceneState:
        """Return where things are now."""
        if self._reader is None or self._reader.sim is not self.sim:
            self._reader = SceneReader(self.sim, self.robot)
        return self._reader.read()

    def close(self) -> None:
        """Free the simulator. May be called twice."""
        self._reader = None
        self.environment.close()

    def _things(self) -> NDArray[np.float64]:
        """Return the positions [things, 3] of what can be carried."""
        bodies = self.state().bodies
        names = self.environment.problem.objects_dict
        return np.stack([bodies[f"{name}_main"].position for name in names])

    def _place(self, rng: np.random.Generator, joint_noise_rad: float) -> None:
        seed = int(rng.integers(1 << 31))
        self.environment.reset(seed=seed, settle_steps=0, render=False)
        joints = self.robot._ref_joint_pos_indexes
        self.sim.data.qpos[joints] += rng.normal(0, joint_noise_rad, len(joints))
        self.sim.forward()
        self.robot.controller.update(force=True)
        self.robot.controller.reset_goal()

    def _settle(self, *, render: bool) -> None:
        for step in range(SETTLE_STEPS):
            self.environment.step(REST, render=render and step == SETTLE_STEPS - 1)
        self.steps = 0
