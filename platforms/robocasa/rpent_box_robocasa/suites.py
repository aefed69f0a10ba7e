# SPDX-License-Identifier: Apache-2.0
"""The suites, read from `suites.json`, which `make_suites` wrote from the installed package."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from rpent_box.errors import UnknownName
from rpent_box.sim.platform import Scene, Suite

SUITES: tuple[Suite, ...] = msgspec.json.decode(
    files("rpent_box_robocasa").joinpath("suites.json").read_bytes(), type=tuple[Suite, ...]
)


def find_suite(name: str) -> Suite:
    """Return the suite called `name`. Raises `UnknownName`."""
    for suite in SUITES:
        if suite.name == name:
            return suite
    raise UnknownName(
        f"robocasa has no suite called {name}",
        hint=f"It has: {', '.join(suite.name for suite in SUITES)}. See: rpent-box list",
    )


def task_of(scene: Scene) -> str:
    """Return the name of the task that `scene` numbers. Raises `UnknownName`."""
    suite = find_suite(scene.suite)
    if 0 <= scene.task < len(suite.tasks):
        return suite.tasks[scene.task]
    raise UnknownName(
        f"{suite.name} has no task {scene.task}; its tasks are 0 to {len(suite.tasks) - 1}",
        hint="See: rpent-box list",
    )
