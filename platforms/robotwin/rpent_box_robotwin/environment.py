# SPDX-License-Identifier: Apache-2.0
"""One scene of one RoboTwin task, built for evaluation. Import inside `prepared_process`.

The stock task is built, stepped and judged by its own code. What is ours: the global state that it
draws from is the scene's own, so that a scene is a function of suite, task and seed; only cameras
that somebody looks at are drawn, and only then; and hand poses have a planner (see `planning`).
"""

from __future__ import annotations

import copy
import gc
import importlib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sapien
import yaml
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image
from rpent_box.errors import SimulatorError
from rpent_box_robotwin import robot_state
from rpent_box_robotwin.assets import EMBODIMENT
from rpent_box_robotwin.control import ActionType
from rpent_box_robotwin.facts import scene_facts
from rpent_box_robotwin.fresh import FreshDefaults
from rpent_box_robotwin.listing import sort_listings
from rpent_box_robotwin.observation import CAMERAS, frame
from rpent_box_robotwin.planning import HandPlanner
from rpent_box_robotwin.process import assets_in, import_runtime, quiet
from rpent_box_robotwin.randomness import Randomness
from rpent_box_robotwin.renderer import Renderer

_log = logging.getLogger("rpent_box_robotwin")

StockTask: TypeAlias = Any
"""An instance of one of the runtime's task classes, which have no types."""

_defaults = FreshDefaults()

_BUILD_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What the stock tasks raise for a file that is not there or not what they take it for."""


class SceneState(Struct, frozen=True, kw_only=True):
    """Enough to draw a moment again: about 1 KB."""

    physics: bytes
    """PhysX's own: poses, joint positions and their rates."""
    lights: tuple[tuple[float, ...], ...]
    """Colours of the lights, then of the ambient light: one randomized scene in fifty flickers."""


class SceneName(Struct, frozen=True, kw_only=True):
    """What a scene is a function of."""

    suite: str
    task: str
    seed: int
    """RoboTwin's scene seed."""


class RobotwinEnvironment:
    """A built scene. `untouched` until it is stepped or restored."""

    def __init__(self, name: SceneName, *, assets: Path, renderer: Renderer) -> None:
        """Build the scene, 0.3 s to many seconds, and let it settle.

        `assets` is the folder that holds `assets/`. Raises `SimulatorError`, which names task and
        seed, for a scene that does not settle or cannot be built.
        """
        self.name = name
        self.untouched = True
        self.unplanned: Counter[str] = Counter()
        """Arm → hand targets of this episode that it could not be moved to."""
        self._steps = 0
        self._renderer = renderer
        self._randomness = Randomness(name.seed)
        self._stock: StockTask = _new_task(name.task)
        try:
            with ExitStack() as stack:
                for block in (assets_in(assets), self._global_state(), renderer.in_charge()):
                    stack.enter_context(block)
                self._build(_arguments(name, assets))
                self.facts = scene_facts(self._stock)
            self._planners = _plan_hands(self._stock.robot)
        except BaseException:
            self.close()
            raise
        self._place_cameras()

    def step(self, action: NDArray[np.float64], kind: ActionType) -> bool:
        """Execute one action [14 or 16], and return whether the task is solved.

        This is the stock step: it times the arms' paths, drives them through, and asks for success
        after every 4 ms of physics, where it stops. An arm whose hand target cannot be reached is
        held, as in RoboTwin, and counted in `unplanned`.
        """
        self.untouched = False
        self._steps += 1
        with self._global_state():
            self._stock.take_action(action, action_type=kind)
        if kind == "ee":
            self._count_unplanned()
        return self.solved

    @property
    def solved(self) -> bool:
        return bool(self._stock.eval_success)

    def robot_state(self) -> dict[str, NDArray[np.float64]]:
        """Return what `robot_state.read` reads."""
        return robot_state.read(self._stock.robot)

    def draw(self, roles: Sequence[str]) -> dict[str, Image]:
        """Return a frame of each camera role, uint8 RGB [240, 320, 3], upright, all our own."""
        with self._renderer.in_charge():
            return {role: self._draw_one(role) for role in roles}

    def state(self) -> SceneState:
        """Return this moment, to be drawn again by `restore`."""
        colours = [light.color for light in self._lights()] + [self._stock.scene.ambient_light]
        return SceneState(
            physics=self._stock.scene.physx_system.pack(),
            lights=tuple(tuple(float(part) for part in colour) for colour in colours),
        )

    def restore(self, state: SceneState) -> None:
        """Show a recorded moment, to be drawn: the task's own counters stay as they are."""
        self.untouched = False
        self._stock.scene.physx_system.unpack(state.physics)
        *colours, ambient = state.lights
        for light, colour in zip(self._lights(), colours, strict=True):
            light.set_color(colour)
        self._stock.scene.set_ambient_light(ambient)
        self._place_cameras()

    def close(self) -> None:
        """Free the scene; SAPIEN keeps its meshes for the next one. May be called twice."""
        if self._stock is None:
            return
        self._planners = ()
        with quiet():
            self._stock.close_env()
        self._stock = None
        # Scene, robot and planners hold each other.
        gc.collect()

    def _build(self, arguments: dict[str, Any]) -> None:
        from robotwin.envs.utils.create_actor import UnStableError

        task, seed = self.name.task, self.name.seed
        try:
            self._stock.setup_demo(now_ep_num=0, seed=seed, is_test=True, **arguments)
        except UnStableError as error:
            raise SimulatorError(
                f"{task} with scene seed {seed} does not settle: {error}",
                hint="RoboTwin's own evaluation leaves such seeds out: choose another scene seed.",
            ) from error
        except _BUILD_ERRORS as error:
            raise SimulatorError(
                f"{task} with scene seed {seed} cannot be built: {type(error).__name__}: {error}",
                hint="Are its assets whole? robotwin-download-assets fetches them.",
            ) from error
        # On success it would draw four cameras, for nobody.
        self._stock.get_obs = _nothing
        # Whoever plays counts the steps, and may allow more than RoboTwin does.
        self._stock.step_lim = None

    @contextmanager
    def _global_state(self) -> Iterator[None]:
        with self._randomness.drawn_from(), quiet():
            yield

    def _place_cameras(self) -> None:
        """Show the renderer where everything is. The stock method also draws new lights."""
        robot = self._stock.robot
        self._stock.cameras.update_wrist_camera(
            robot.left_camera.get_pose(), robot.right_camera.get_pose()
        )
        self._stock.scene.update_render()

    def _draw_one(self, role: str) -> Image:
        camera = self._camera(CAMERAS[role])
        camera.take_picture()
        return frame(camera.get_picture("Color"))

    def _camera(self, name: str) -> sapien.render.RenderCameraComponent:
        cameras = self._stock.cameras
        if name in cameras.static_camera_name:
            return cameras.static_camera_list[cameras.static_camera_name.index(name)]
        return getattr(cameras, name)

    def _lights(self) -> list[sapien.render.RenderLightComponent]:
        return [*self._stock.point_light_lst, *self._stock.direction_light_lst]

    def _count_unplanned(self) -> None:
        for side, planner in self._planners:
            if not planner.failed:
                continue
            self.unplanned[side] += 1
            count = self.unplanned[side]
            if count & (count - 1) == 0:  # the 1st, 2nd, 4th, 8th, …
                _log.warning(
                    "%s, scene seed %d: the %s hand cannot reach its target in step %d and is held "
                    "(%d so far in this episode)",
                    self.name.task,
                    self.name.seed,
                    side,
                    self._steps,
                    count,
                )


def _new_task(name: str) -> StockTask:
    import_runtime()
    with quiet():
        module = importlib.import_module(f"robotwin.envs.{name}")
    sort_listings(module)
    _defaults.restore()
    return getattr(module, name)()


def _arguments(name: SceneName, assets: Path) -> dict[str, Any]:
    """Return what RoboTwin's evaluation builds a scene with, except for its planner.

    In `eval_mode` randomized backgrounds are the ones that demonstrations do not show.
    """
    from robotwin.config import load_task_config

    robot = assets / EMBODIMENT
    embodiment = yaml.safe_load((robot / "config.yml").read_text(encoding="utf-8"))
    return {
        **load_task_config(name.suite),
        "task_name": name.task,
        "left_robot_file": str(robot),
        "right_robot_file": str(robot),
        "left_embodiment_config": embodiment,
        "right_embodiment_config": copy.deepcopy(embodiment),
        "dual_arm_embodied": True,
        "eval_mode": True,
        "render_freq": 0,
        "planner_backend": "mplib",
    }


def _plan_hands(robot: Any) -> tuple[tuple[str, HandPlanner], ...]:  # noqa: ANN401
    planners = tuple((side, HandPlanner(robot, side)) for side in robot_state.SIDES)
    for side, planner in planners:
        setattr(robot, f"{side}_plan_path", planner.plan)
    return planners


def _nothing() -> None:
    """Stand in for a stock method whose result nobody looks at."""
