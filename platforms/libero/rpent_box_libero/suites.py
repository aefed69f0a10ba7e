# SPDX-License-Identifier: Apache-2.0
"""The suites of both platforms, as `make_suites` read them from the installed benchmark."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from rpent_box.errors import UnknownName, UsageError
from rpent_box.sim.platform import Suite

LIBERO = "libero"
LIBERO_PRO = "libero-pro"


def read_shipped(name: str) -> tuple[Suite, ...]:
    """Return the suites in the file `name` of this package."""
    data = files("rpent_box_libero").joinpath(name).read_bytes()
    return msgspec.json.decode(data, type=tuple[Suite, ...])


SUITES = read_shipped("suites.json")
PRO_SUITES = read_shipped("pro_suites.json")
"""Those that can be played first; the others say what they lack."""

SUITES_OF = {LIBERO: SUITES, LIBERO_PRO: PRO_SUITES}
"""Platform → its suites."""


def find_suite(name: str, *, platform: str = LIBERO) -> Suite:
    """Return the suite `name` of `platform`.

    Raises `UnknownName`, or `UsageError` for a suite that the installed benchmark holds in part.
    """
    for suite in SUITES_OF[platform]:
        if suite.name == name:
            if suite.unavailable:
                raise UsageError(f"{name} cannot be played: {suite.unavailable}")
            return suite
    raise UnknownName(f"{platform} has no suite called {name}", hint=_hint(name, platform))


def _hint(name: str, platform: str) -> str:
    for other, suites in SUITES_OF.items():
        if any(suite.name == name for suite in suites):
            return f"It is a suite of {other}: --platform {other}"
    playable = (suite.name for suite in SUITES_OF[platform] if not suite.unavailable)
    return f"It has: {', '.join(playable)}. See: rpent-box list --platform {platform}"
