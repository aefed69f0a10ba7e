# SPDX-License-Identifier: Apache-2.0
"""RoboCasa as a platform: scenes in, observations out."""

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
from rpent_box.errors import SimulatorError
from rpent_box.sim.platform import Applied, ModelNeeds, Scene
from rpent_box.sim.recording import Recording
from rpent_box_robocasa.assets import require
from rpent_box_robocasa.control import CONTROL_HZ, check_actions, check_control
from rpent_box_robocasa.plugin import RobocasaOptions, platform_meta
from rpent_box_robocasa.process import prepared_process
from rpent_box_robocasa.roles import VIEWS
from rpent_box_robocasa.seeds import scene_seed
from rpent_box_robocasa.state import State
from rpent_box_robocasa.suites import task_of

if TYPE_CHECKING:
    from rpent_box_robocasa.environment import RobocasaEnvironment

_DECIDING_PACKAGES = (
    "rlinf-robocasa365",
    "robosuite",
    "mujoco",
    "numpy",
    "numba",
    "scipy",
    "pyopengl",
)


class RobocasaPlatform:
    """Holds one task's simulator at a time; another task replaces it."""

    def __init__(self, options: RobocasaOptions, *, renderer: str, resources: ExitStack) -> None:
        self._options = options
        self._renderer = renderer
        self._resources = resources
        self._assets_are_whole = False
        self._task = ""
        self._environment: RobocasaEnvironment | None = None
        self._roles: tuple[str, ...] = tuple(VIEWS)
        self._recording: Recording[State] = Recording(CONTROL_HZ)

    @classmethod
    def open(cls, options: RobocasaOptions) -> RobocasaPlatform:
        """Import the simulator and try its renderer; assets are not needed before a reset.

        Raises `SimulatorError`.
        """
        with ExitStack() as stack:
            stack.enter_context(prepared_process(options.assets_path))
            from rpent_box_robocasa.renderer import describe_renderer

            renderer = describe_renderer()
            import rpent_box_robocasa.environment
            import rpent_box_robocasa.kitchen  # noqa: F401 - now, so that a first reset is quick

            return cls(options, renderer=renderer, resources=stack.pop_all())

    @property
    def meta(self) -> PlatformMeta:
        return platform_meta(self._options)

    @property
    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in _DECIDING_PACKAGES}

    @property
    def renderer(self) -> str:
        return self._renderer

    def prepare(self, needs: ModelNeeds) -> None:
        """Show, from the next reset on, only the frames that `needs` names.

        There is one controller, and proprio costs nothing: all of it is shown. Raises
        `ContractError` for another controller.
        """
        check_control(needs.control)
        self._roles = tuple(role for role in VIEWS if role in needs.camera_roles)

    def reset(self, scene: Scene) -> Observation:
        """Build `scene`, let it settle, and show it.

        Raises `UnknownName` for a suite, task or initial state that does not exist, `AssetsMissing`
        where there is nothing to build a kitchen from, and `BadOption` for a layout or style in
        which the task cannot take place.
        """
        task, seed = task_of(scene), scene_seed(scene)
        self._check_assets()
        environment = self._load(task)
        environment.reset(seed)
        self._recording.start(environment.state())
        return environment.observe(self._roles)

    def apply(self, actions: Actions) -> Applied:
        """Execute float32 [steps, 12] in order, stopping at success; draw after the last.

        Raises `BadActions` before the first step, `SimulatorError` before the first reset.
        """
        check_actions(actions)
        environment = self._current()
        started = time.perf_counter()
        steps, success = 0, False
        for row in actions:
            steps += 1
            success = environment.step(row)
            self._recording.add(environment.state())
            if success:
                break
        moved = time.perf_counter()
        observation = None if success else environment.observe(self._roles)
        return Applied(
            steps=steps,
            success=success,
            observation=observation,
            simulate_s=moved - started,
            render_s=time.perf_counter() - moved,
        )

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        """Draw the episode since the last reset again from its recorded states.

        Every camera is drawn, whichever the model looks through. Leaves the simulator in an
        undefined state: only `reset` or `close` may follow.
        """
        environment = self._current()
        shown: tuple[State, dict[str, Image]] | None = None
        for state in self._recording.at(fps):
            if shown is None or shown[0] is not state:
                shown = state, environment.draw(state)
            yield shown[1]

    def recorded_states(self) -> NDArray[np.float64]:
        """Return the episode so far, float64 [steps + 1, 1 + nq + nv]: time, positions, velocities.

        The first row is the settled scene.
        """
        return np.array([state.numbers for state in self._recording.states])

    def close(self) -> None:
        """Free memory, GL contexts and the temporary folder. May be called twice."""
        self._unload()
        self._resources.close()

    def _check_assets(self) -> None:
        # Once: a thousand files, on a disk that may be far away.
        if not self._assets_are_whole:
            require(self._options.assets_path)
            self._assets_are_whole = True

    def _load(self, task: str) -> RobocasaEnvironment:
        from rpent_box_robocasa.environment import RobocasaEnvironment
        from rpent_box_robocasa.kitchen import make_kitchen

        if self._environment is None or self._task != task:
            self._unload()
            self._environment = RobocasaEnvironment(
                lambda moments: make_kitchen(task, self._options, moments),
                image_size=self._options.image_size,
            )
            self._task = task
        return self._environment

    def _unload(self) -> None:
        if self._environment is not None:
            self._environment.close()
        self._environment, self._task = None, ""

    def _current(self) -> RobocasaEnvironment:
        if self._environment is None:
            raise SimulatorError("robocasa was asked to act before its first reset")
        return self._environment
