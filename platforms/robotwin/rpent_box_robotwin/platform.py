# SPDX-License-Identifier: Apache-2.0
"""RoboTwin as a platform: scenes in, observations out."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.errors import SimulatorError, UnknownName
from rpent_box.sim.platform import Applied, ModelNeeds, Scene
from rpent_box.sim.recording import Recording
from rpent_box_robotwin.assets import (
    CLUTTERED_SUITE,
    assets_revision,
    require_assets,
    require_task,
)
from rpent_box_robotwin.control import CONTROL_HZ, action_type, check_actions, executable
from rpent_box_robotwin.language import Sentences, sentences
from rpent_box_robotwin.observation import CAMERA_ROLES, observation_from
from rpent_box_robotwin.plugin import RobotwinOptions, platform_meta
from rpent_box_robotwin.process import import_runtime, prepared_process
from rpent_box_robotwin.suites import find_suite, task_name

if TYPE_CHECKING:
    from rpent_box_robotwin.environment import RobotwinEnvironment, SceneName, SceneState
    from rpent_box_robotwin.renderer import Renderer

_log = logging.getLogger("rpent_box_robotwin")

_DECIDING_PACKAGES = (
    "rlinf-robotwin-runtime",
    "sapien",
    "mplib",
    "toppra",
    "transforms3d",
    "numpy",
    "scipy",
)
HIGHEST_SEED = 2**32 - 1
"""NumPy's global generator takes no higher one."""
CLUTTERED_SCENES_PER_CACHE = 25
"""SAPIEN keeps every mesh for the next scene, and dropping them costs some memory for good. So they
go when the task changes and, where hundreds of objects take turns on the table, now and then."""


class RobotwinPlatform:
    """Holds one scene at a time; another one replaces it."""

    def __init__(
        self, options: RobotwinOptions, *, renderer: Renderer, resources: ExitStack
    ) -> None:
        self._options = options
        self._renderer = renderer
        self._resources = resources
        self._sentences: Sentences = sentences(options)
        self._control = self._next_control = action_type(self.meta.controls[0])
        self._roles = self._next_roles = CAMERA_ROLES
        self._environment: RobotwinEnvironment | None = None
        self._instruction = ""
        self._meshes_of = ""
        self._scenes_since_cache = 0
        self._recording: Recording[SceneState] = Recording(CONTROL_HZ)

    @classmethod
    def open(cls, options: RobotwinOptions) -> RobotwinPlatform:
        """Import the simulator and draw a first picture; assets are looked for at a reset.

        Raises `SimulatorError` when it is not installed or cannot draw, `BadOption` for options
        that cannot be used.
        """
        with ExitStack() as stack:
            stack.enter_context(prepared_process())
            from rpent_box_robotwin.renderer import find_renderer

            renderer = find_renderer(options.ray_tracing)
            stack.callback(renderer.close)
            import_runtime()  # now, so that a first reset is quick
            import rpent_box_robotwin.environment  # noqa: F401

            return cls(options, renderer=renderer, resources=stack.pop_all())

    @property
    def meta(self) -> PlatformMeta:
        return platform_meta(self._options)

    @property
    def versions(self) -> dict[str, str]:
        """Packages, and the assets' revision where they are there: it decides what is seen."""
        found = {name: version(name) for name in _DECIDING_PACKAGES}
        if self._options.assets_path:
            revision = assets_revision(require_assets(self._options))
            found["robotwin-assets"] = revision or "no revision is written beside them"
        return found

    @property
    def renderer(self) -> str:
        return str(self._renderer)

    def prepare(self, needs: ModelNeeds) -> None:
        """Be moved by `needs.control` from the next reset on, and draw the cameras it names.

        Raises `IncompatibleWorker` for a control and `UnknownName` for a camera that RoboTwin does
        not have.
        """
        unknown = sorted(set(needs.camera_roles) - set(CAMERA_ROLES))
        if unknown:
            raise UnknownName(
                f"robotwin has no camera {', '.join(unknown)}; it has {', '.join(CAMERA_ROLES)}"
            )
        self._next_control = action_type(needs.control)
        self._next_roles = tuple(role for role in CAMERA_ROLES if role in needs.camera_roles)

    def reset(self, scene: Scene) -> Observation:
        """Build `scene`, whose initial state is RoboTwin's scene seed, and show it.

        A scene that stands as it was built is shown as it stands. `scene.seed` changes nothing.
        Raises `UnknownName` for a suite, task or seed that does not exist, or that the options'
        list of sentences leaves out; `AssetsMissing` when something the task shows is not there;
        `SimulatorError` for a scene that does not settle.
        """
        name = _scene_name(scene)
        self._sentences.require(name.task, name.seed)
        environment = self._stand(name)
        self._instruction = self._sentences.instruction(
            name.suite, name.task, name.seed, environment.facts
        )
        self._control, self._roles = self._next_control, self._next_roles
        self._recording.start(environment.state())
        return self._observe(environment)

    def apply(self, actions: Actions) -> Applied:
        """Execute float32 [steps, 14 or 16] in order, stopping at success; draw once, at the end.

        A hand that cannot reach its target is held there, as in RoboTwin, and remarked on. Raises
        `BadActions` before the first step, `SimulatorError` before the first reset.
        """
        check_actions(actions, self._control)
        environment = self._current()
        started, held_before = time.perf_counter(), Counter(environment.unplanned)
        steps, success = 0, False
        for row in executable(actions, self._control):
            steps += 1
            success = environment.step(row, self._control)
            self._recording.add(environment.state())
            if success:
                break
        simulated = time.perf_counter()
        observation = None if success else self._observe(environment)
        return Applied(
            steps=steps,
            success=success,
            observation=observation,
            simulate_s=simulated - started,
            render_s=time.perf_counter() - simulated,
            remarks={
                f"the {side} hand could not reach its target and was held": count
                for side, count in (environment.unplanned - held_before).items()
            },
        )

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        """Draw the episode since the last reset again, an action lasting 1/15 s.

        Leaves the simulator in an undefined state: only `reset` or `close` may follow.
        """
        environment = self._current()
        shown: tuple[SceneState, dict[str, Image]] | None = None
        for state in self._recording.at(fps):
            if shown is None or shown[0] is not state:
                environment.restore(state)
                shown = state, environment.draw(CAMERA_ROLES)
            yield shown[1]

    def close(self) -> None:
        """Free the scene, the meshes, the device and the temporary folder. May be called twice."""
        self._unload()
        self._resources.close()

    def _stand(self, name: SceneName) -> RobotwinEnvironment:
        """Return `name` as it is at the start, built anew unless it stands there untouched."""
        from rpent_box_robotwin.environment import RobotwinEnvironment

        standing = self._environment
        if standing is not None and standing.name == name and standing.untouched:
            return standing
        assets = require_assets(self._options)
        require_task(assets, name.suite, name.task)
        self._unload()
        self._forget_old_meshes(name)
        self._scenes_since_cache += 1  # one that fails half-way leaves its meshes as well
        self._environment = RobotwinEnvironment(name, assets=assets, renderer=self._renderer)
        return self._environment

    def _forget_old_meshes(self, following: SceneName) -> None:
        """Keep SAPIEN's memory bounded; to be called while no scene stands."""
        another_task = self._meshes_of not in ("", following.task)
        cluttered = following.suite == CLUTTERED_SUITE
        if another_task or (cluttered and self._scenes_since_cache >= CLUTTERED_SCENES_PER_CACHE):
            self._renderer.forget_meshes()
            self._scenes_since_cache = 0
        self._meshes_of = following.task

    def _observe(self, environment: RobotwinEnvironment) -> Observation:
        images = environment.draw(self._roles)
        return observation_from(images, environment.robot_state(), self._instruction)

    def _unload(self) -> None:
        if self._environment is not None:
            self._environment.close()
        self._environment = None
        self._recording.clear()

    def _current(self) -> RobotwinEnvironment:
        if self._environment is None:
            raise SimulatorError("robotwin was asked to act before its first reset")
        return self._environment


def _scene_name(scene: Scene) -> SceneName:
    from rpent_box_robotwin.environment import SceneName

    suite = find_suite(scene.suite)
    name = task_name(suite, scene.task)
    if not 0 <= scene.init_state <= HIGHEST_SEED:
        raise UnknownName(
            f"{name} has no scene seed {scene.init_state}; any from 0 to {HIGHEST_SEED} is one, "
            f"and evaluation begins at {suite.first_init_state}"
        )
    return SceneName(suite=suite.name, task=name, seed=scene.init_state)
