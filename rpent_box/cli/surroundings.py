# SPDX-License-Identifier: Apache-2.0
"""What the command line takes from the environment. Nothing below `cli/` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rpent_box.evaluate.config import LauncherName
from rpent_box.worker.backend import BackendSpec


class Place(Struct, frozen=True, kw_only=True):
    """Where an owned worker runs, for the process launcher."""

    python: str | None
    root: str | None


def place_of_worker(
    spec: BackendSpec,
    *,
    python: str | None,
    root: str | None,
    launcher: LauncherName,
    environ: Mapping[str, str],
) -> Place:
    """Fill what was not given from the variables that the backend declares.

    For example COSMOS_POLICY_PYTHON and COSMOS_POLICY_ROOT. A container needs neither.
    """
    found = {"python": python, "root": root}
    if launcher != "docker":
        for variable, option in spec.env_fallbacks.items():
            if found.get(option) is None and environ.get(variable):
                found[option] = environ[variable]
    return Place(python=found["python"], root=found["root"])


def runtime_dir(environ: Mapping[str, str]) -> str | None:
    """Return where boxes have their rooms; None: `/tmp/rpent-box-<uid>`."""
    return environ.get("RPENT_BOX_RUNTIME_DIR") or None


def cache_dir(environ: Mapping[str, str]) -> str | None:
    """Return where this user keeps what can be made again, `~/.cache/rpent-box`.

    None: nowhere, as for a user without a home.
    """
    cache, home = environ.get("XDG_CACHE_HOME", ""), environ.get("HOME", "")
    # The standard for such folders says that a relative one counts for nothing.
    if Path(cache).is_absolute():
        return str(Path(cache) / "rpent-box")
    return str(Path(home) / ".cache" / "rpent-box") if home else None
