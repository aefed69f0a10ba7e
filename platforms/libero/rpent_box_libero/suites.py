# SPDX-License-Identifier: Apache-2.0
"""The suites, read from `suites.json`, which `make_suites` wrote from the installed benchmark."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from rpent_box.errors import UnknownName
from rpent_box.sim.platform import Suite

SUITES: tuple[Suite, ...] = msgspec.json.decode(
    files("rpent_box_libero").joinpath("suites.json").read_bytes(), type=tuple[Suite, ...]
)


def find_suite(name: str) -> Suite:
    """Return the suite called `name`. Raises `UnknownName`."""
    for suite in SUITES:
        if suite.name == name:
            return suite
    raise UnknownName(
        f"libero has no suite called {name}",
        hint=f"It has: {', '.join(suite.name for suite in SUITES)}. See: rpent-box list",
    )
