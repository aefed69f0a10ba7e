# SPDX-License-Identifier: Apache-2.0
"""The suites, read from `suites.json`, which `make_suites` wrote from the installed runtime."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from rpent_box.errors import UnknownName
from rpent_box.sim.platform import Suite

SUITES: tuple[Suite, ...] = msgspec.json.decode(
    files("rpent_box_robotwin").joinpath("suites.json").read_bytes(), type=tuple[Suite, ...]
)


def find_suite(name: str) -> Suite:
    """Return the suite called `name`. Raises `UnknownName`."""
    for suite in SUITES:
        if suite.name == name:
            return suite
    raise UnknownName(
        f"robotwin has no suite called {name}",
        hint=f"It has: {', '.join(suite.name for suite in SUITES)}. See: rpent-box list",
    )


def task_name(suite: Suite, index: int) -> str:
    """Return the name of the task at `index`. Raises `UnknownName`."""
    if 0 <= index < len(suite.tasks):
        return suite.tasks[index]
    raise UnknownName(
        f"{suite.name} has no task {index}",
        hint=f"Its {len(suite.tasks)} tasks are numbered from 0. See: rpent-box list",
    )
