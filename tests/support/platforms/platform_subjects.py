# SPDX-License-Identifier: Apache-2.0
"""Who is asked the questions of the platforms' conformance suite, and in which scenes."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.contracts.control import ControlSpec
from rpent_box.contracts.observation import Observation
from rpent_box.errors import AssetsMissing
from rpent_box.sim.platform import Applied, ModelNeeds, Platform, PlatformPlugin, Scene, Suite

SIMULATORS = {
    "libero": "bddl",
    "libero-pro": "bddl",
    "robotwin": "sapien",
    "robocasa": "robocasa",
}
"""Platform → a module that is there when its simulator is. One that is not named needs none."""

ROOT = Path(__file__).resolve().parents[3]

TASKS = {
    "robocasa": ("OpenDrawer", "OpenCabinet"),
    "robotwin": ("stack_blocks_two", "blocks_ranking_rgb"),
}
"""Platform → the task to play and another one, where the assets for tests (`LENT`) do not hold what
every task needs."""

SEED = 7
EARLIER_FRAME = re.compile(r"_(\d+)_steps_ago$")


class Running:
    """A running platform and the scenes that it is asked about."""

    def __init__(self, plugin: PlatformPlugin, platform: Platform) -> None:
        self.plugin = plugin
        self.platform = platform
        self.scene = first_scene(plugin)

    @property
    def cameras(self) -> tuple[str, ...]:
        """The roles of now: a frame of earlier steps is no camera of its own."""
        return real_cameras(self.platform.meta.camera_roles)

    def prepare(
        self,
        *,
        roles: tuple[str, ...] | None = None,
        proprio: tuple[str, ...] | None = None,
        control: ControlSpec | None = None,
    ) -> ModelNeeds:
        """Say what is looked at (by default everything) and how the robot is moved."""
        meta = self.platform.meta
        needs = ModelNeeds(
            control=control or meta.controls[0],
            camera_roles=meta.camera_roles if roles is None else roles,
            proprio=tuple(meta.proprio_schema) if proprio is None else proprio,
        )
        self.platform.prepare(needs)
        return needs

    def reset_for_one_camera(self) -> Observation:
        """Show the scene through one camera, which is all that most questions need to see."""
        self.prepare(roles=self.cameras[:1])
        return self.platform.reset(self.scene)

    @cached_property
    def elsewhere(self) -> list[Scene]:
        """Other scenes: another seed or number, another task, another suite."""
        return other_scenes(self.plugin)


class Played(Struct, frozen=True, kw_only=True):
    """A scene and what came of some actions in it."""

    first: Observation
    applied: Applied


def real_cameras(roles: tuple[str, ...]) -> tuple[str, ...]:
    """Return `roles` without those of earlier steps' frames."""
    return tuple(role for role in roles if not EARLIER_FRAME.search(role))


def steps_ago(role: str) -> int:
    """Return how many control steps before now `role` shows; 0 for a camera's own role."""
    found = EARLIER_FRAME.search(role)
    return int(found[1]) if found else 0


def simulator_of(plugin: PlatformPlugin) -> str | None:
    """Return a module that the simulator brings; None where there is none to look for."""
    return SIMULATORS.get(plugin.name)


@contextmanager
def opened(plugin: PlatformPlugin) -> Iterator[Running]:
    """Open a platform as its process would find it; skips where that cannot be done here."""
    require_simulator(plugin)
    options = options_here(plugin)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in plugin.environment.items():
            if name not in os.environ:
                patch.setenv(name, value)
        platform = plugin.open(options)
        try:
            yield Running(plugin, platform)
        finally:
            platform.close()


def options_here(plugin: PlatformPlugin) -> Any:
    """Return the plugin's options with this machine's assets, else with those for tests.

    Skips the test, with the plugin's own words and its command, where there are neither.
    """
    given = _assets_of_its_own(plugin)
    if not given and plugin.name in LENT and plugin.env_fallbacks:
        given = dict.fromkeys(plugin.env_fallbacks.values(), LENT[plugin.name]())
    options = replace(plugin.options(), **given)
    missing = _missing(plugin, options)
    if missing is not None:
        pytest.skip(f"{plugin.name} cannot be played here: {missing}")
    return options


def missing_assets(plugin: PlatformPlugin) -> AssetsMissing | None:
    """Return why the platform's own assets cannot be used here; None when they can."""
    return _missing(plugin, replace(plugin.options(), **_assets_of_its_own(plugin)))


def _assets_of_its_own(plugin: PlatformPlugin) -> dict[str, str]:
    return {
        field: os.environ[variable]
        for variable, field in plugin.env_fallbacks.items()
        if os.environ.get(variable)
    }


def _missing(plugin: PlatformPlugin, options: Any) -> AssetsMissing | None:
    if plugin.require is None:
        return None
    try:
        plugin.require(options)
    except AssetsMissing as error:
        return error
    return None


def _rebuilt_robot() -> str:
    """RoboTwin's robot and nothing else, where a neighbour of this checkout has it."""
    folder = ROOT.parent / "shared" / "data" / "robotwin-aloha"
    return str(folder) if folder.is_dir() else ""


@cache
def _kitchen_of_boxes() -> str:
    """RoboCasa's floor plans, with a box for each mesh."""
    path = ROOT / "platforms" / "robocasa" / "tests" / "standin_kitchen.py"
    spec = importlib.util.spec_from_file_location("standin_kitchen", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tempfile.mkdtemp(prefix="rpent-box-kitchen-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(module.write_assets(Path(folder)))


LENT: dict[str, Callable[[], str]] = {
    "robotwin": _rebuilt_robot,
    "robocasa": _kitchen_of_boxes,
}
"""Platform → assets for tests, where its own are not here: enough to play, not to be scored."""


def require_simulator(plugin: PlatformPlugin) -> None:
    """Skip the test, with the command that would help, where the simulator is not installed."""
    module = simulator_of(plugin)
    if module is not None and importlib.util.find_spec(module) is None:
        pytest.skip(
            f"{plugin.name}'s simulator is not in this Python ({module} is missing); "
            f"rpent-box build --launcher process {plugin.name} makes one that has it"
        )


def first_scene(plugin: PlatformPlugin) -> Scene:
    """Return the scene that everything is asked of."""
    suite = suite_called(plugin, plugin.default_suite)
    return Scene(
        suite=suite.name,
        task=_tasks(plugin, suite)[0],
        init_state=suite.first_init_state,
        seed=SEED,
    )


def other_scenes(plugin: PlatformPlugin) -> list[Scene]:
    """Return scenes that differ from the first: in what is random, in the task, in the suite."""
    first = first_scene(plugin)
    suite = suite_called(plugin, first.suite)
    found = [replace(first, seed=first.seed + 1, init_state=first.init_state + 1)]
    found += [replace(first, task=task) for task in _tasks(plugin, suite)[1:2]]
    for other in plugin.suites:
        tasks = _tasks(plugin, other)
        if other.name != suite.name and not other.unavailable and tasks:
            number = other.first_init_state
            return [*found, replace(first, suite=other.name, task=tasks[0], init_state=number)]
    return found


def suite_called(plugin: PlatformPlugin, name: str) -> Suite:
    """Return the suite called `name`."""
    return next(suite for suite in plugin.suites if suite.name == name)


def _tasks(plugin: PlatformPlugin, suite: Suite) -> list[int]:
    if plugin.name not in TASKS:
        return list(range(len(suite.tasks)))[:2]
    return [suite.tasks.index(name) for name in TASKS[plugin.name] if name in suite.tasks]
