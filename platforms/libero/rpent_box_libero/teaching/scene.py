# SPDX-License-Identifier: Apache-2.0
"""One task's simulator as the teacher needs it: fresh scenes, saved states, steps without cameras.

It is the platform's own environment, so frames and physics are the ones that a student meets. The
recorded initial states, on which models are judged, are never read here. Import this module inside
`prepared_process`.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation
from rpent_box_libero.control import REST, SETTLE_STEPS
from rpent_box_libero.environment import LiberoEnvironment
from rpent_box_libero.suites import find_suite
from rpent_box_libero.tasks import find_task, task_name
from rpent_box_libero.teaching.expert import Expert, SceneState
from rpent_box_libero.teaching.lessons import Lesson

BUMPED_M = 0.015
"""An object that settles further than this from where it was put was pushed by another.

The placement sampler lets objects overlap in about a quarter of its samples.
"""
BUMPED_SHARE_KEPT = 0.15


class SavedState:
    """Everything that `TeachingScene.step_blind` changes."""

    def __init__(self, scene: TeachingScene) -> None:
        data, controller = scene.sim.data, scene.robot.controller
        self.state = scene.sim.get_state()
        self.control = data.ctrl.copy()
        self.warmstart = data.qacc_warmstart.copy()
        self.aim = np.array(controller.goal_pos), np.array(controller.goal_ori)
        self.gripper = np.array(scene.robot.gripper.current_action)

    def put_back(self, scene: TeachingScene) -> None:
        data, controller = scene.sim.data, scene.robot.controller
        scene.sim.set_state(self.state)
        data.ctrl[:] = self.control
        scene.sim.forward()
        data.qacc_warmstart[:] = self.warmstart
        controller.goal_pos, controller.goal_ori = (part.copy() for part in self.aim)
        controller.update(force=True)
        scene.robot.gripper.current_action = self.gripper.copy()


class TeachingScene:
    """Holds one task's simulator. `sample` begins an episode; not thread-safe."""

    def __init__(self, lesson: Lesson, expert: Expert) -> None:
        suite = find_suite(lesson.suite)
        self.expert = expert
        self.environment = LiberoEnvironment(find_task(suite.name, task_name(suite, lesson.task)))
        self.instruction = self.environment.instruction
        self.steps = 0
        """Actions since the scene settled."""
        self._lesson = lesson

    @property
    def sim(self) -> Any:  # noqa: ANN401 - robosuite is untyped
        return self.environment.problem.sim

    @property
    def robot(self) -> Any:  # noqa: ANN401
        return self.environment.problem.robots[0]

    def sample(self, rng: np.random.Generator, *, joint_noise_rad: float) -> Observation:
        """Begin an episode in a scene that depends on `rng` alone; return what it shows settled."""
        while True:
            self._place(rng, joint_noise_rad)
            placed = self.state().thing
            self._settle()
            moved = float(np.linalg.norm((self.state().thing - placed)[:2]))
            keep_bumped = rng.random() < BUMPED_SHARE_KEPT
            if moved < BUMPED_M or (keep_bumped and not self.expert.is_lost(self.state())):
                return self.environment.observe()

    def execute(self, actions: NDArray[np.float64]) -> tuple[Observation, bool]:
        """Execute [steps, 7]; return what is seen after the last, and whether any solved the task.

        Goes on after success, unlike the platform: what comes then is taught too.
        """
        solved = False
        for row, action in enumerate(actions):
            solved |= self.environment.step(action, render=row == len(actions) - 1)
            self.steps += 1
        return self.environment.observe(), solved

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
        for _ in range(steps):
            actions.append(self.expert.act(self.state()))
            self.step_blind(actions[-1])
        saved.put_back(self)
        return np.stack(actions)

    def state(self) -> SceneState:
        """Return where things are now; a step leaves MuJoCo's positions one substep behind."""
        model, data = self.sim.model, self.sim.data
        mujoco.mj_kinematics(model._model, data._data)
        thing = model.body_name2id(f"{self._lesson.thing}_main")
        hand = model.body_name2id(self.robot.robot_model.eef_name)
        left, right = data.qpos[self.robot._ref_gripper_joint_pos_indexes]
        return SceneState(
            hand=data.site_xpos[self.robot.eef_site_id].copy(),
            hand_rotation=data.body_xmat[hand].reshape(3, 3).copy(),
            aperture=float(left - right),
            thing=data.body_xpos[thing].copy(),
            thing_upright=float(data.body_xmat[thing].reshape(3, 3)[2, 2]),
            goal=data.body_xpos[model.body_name2id(f"{self._lesson.goal}_main")].copy(),
        )

    def close(self) -> None:
        """Free the simulator. May be called twice."""
        self.environment.close()

    def _place(self, rng: np.random.Generator, joint_noise_rad: float) -> None:
        seed = int(rng.integers(1 << 31))
        self.environment.reset(seed=seed, settle_steps=0, render=False)
        joints = self.robot._ref_joint_pos_indexes
        self.sim.data.qpos[joints] += rng.normal(0, joint_noise_rad, len(joints))
        self.sim.forward()
        self.robot.controller.update(force=True)
        self.robot.controller.reset_goal()

    def _settle(self) -> None:
        for step in range(SETTLE_STEPS):
            self.environment.step(REST, render=step == SETTLE_STEPS - 1)
        self.steps = 0
