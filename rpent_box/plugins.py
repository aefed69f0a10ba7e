# SPDX-License-Identifier: Apache-2.0
"""Backends and platforms by name, through entry points: a third party's is one folder, no patch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from rpent_box.errors import BrokenPlugin, UnknownName

if TYPE_CHECKING:
    from rpent_box.sim.platform import PlatformPlugin
    from rpent_box.worker.backend import BackendSpec

BACKENDS = "rpent_box.backends"
PLATFORMS = "rpent_box.platforms"
_WORDS = {BACKENDS: "backend", PLATFORMS: "platform"}

_log = logging.getLogger("rpent_box.plugins")


def backend_names() -> list[str]:
    """Return the installed backends, sorted."""
    return sorted(_entries(BACKENDS))


def platform_names() -> list[str]:
    """Return the installed platforms, sorted."""
    return sorted(_entries(PLATFORMS))


def find_backend(name: str) -> BackendSpec:
    """Return the backend called `name`, by its name or an alias; `_` counts as `-`.

    Raises `UnknownName`, or `BrokenPlugin` when it is installed and cannot be imported.
    """
    found: BackendSpec = _find(BACKENDS, name)
    return found


def find_platform(name: str) -> PlatformPlugin:
    """Return the platform called `name`, by its name or an alias. Raises as `find_backend`."""
    found: PlatformPlugin = _find(PLATFORMS, name)
    return found


def installed_backends() -> list[BackendSpec]:
    """Return every backend that can be imported; a broken one is left out with a warning."""
    return list(_whole(BACKENDS))


def installed_platforms() -> list[PlatformPlugin]:
    """Return every platform that can be imported; a broken one is left out with a warning."""
    return list(_whole(PLATFORMS))


def fitting_backends(action_spaces: set[str]) -> tuple[str, ...]:
    """Return the backends that speak one of `action_spaces`, by their declarations alone."""
    return tuple(
        spec.name for spec in installed_backends() if action_spaces & set(spec.action_spaces)
    )


def _find(group: str, name: str) -> Any:  # noqa: ANN401 - the two groups hold different types
    entry = _entries(group).get(_plain(name))
    if entry is not None:
        return _load(entry)
    for plugin in _whole(group):
        if _plain(name) in plugin.aliases:
            return plugin
    raise UnknownName(
        f"there is no {_WORDS[group]} called {name}",
        hint=f"Installed: {', '.join(sorted(_entries(group))) or 'none'}. See: rpent-box list",
    )


def _whole(group: str) -> Iterator[Any]:
    for _, entry in sorted(_entries(group).items()):
        try:
            yield _load(entry)
        except BrokenPlugin as error:
            # One broken plugin must not stop a run that does not need it.
            _log.warning("%s", error.message)


def _load(entry: EntryPoint) -> Any:  # noqa: ANN401
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        package = entry.dist.name if entry.dist else entry.module
        raise BrokenPlugin(
            f"the {_WORDS[entry.group]} {entry.name} is installed and cannot be imported: {error}",
            hint=f"Repair or remove the package {package}.",
        ) from error


def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")
