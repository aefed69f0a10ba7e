# SPDX-License-Identifier: Apache-2.0
"""Backends and platforms by name, through entry points: a third party's is one folder, no patch."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from rpent_box.errors import UnknownName

if TYPE_CHECKING:
    from rpent_box.sim.platform import PlatformPlugin
    from rpent_box.worker.backend import BackendSpec

BACKENDS = "rpent_box.backends"
PLATFORMS = "rpent_box.platforms"

_log = logging.getLogger("rpent_box.plugins")


def backend_names() -> list[str]:
    """Return the installed backends, sorted."""
    return sorted(_entries(BACKENDS))


def platform_names() -> list[str]:
    """Return the installed platforms, sorted."""
    return sorted(_entries(PLATFORMS))


def find_backend(name: str) -> BackendSpec:
    """Return the backend called `name`, by its name or an alias; `_` counts as `-`.

    Raises `UnknownName`.
    """
    entry = _entries(BACKENDS).get(_plain(name))
    if entry is not None:
        spec: BackendSpec = entry.load()
        return spec
    for candidate in backend_names():
        spec = _entries(BACKENDS)[candidate].load()
        if _plain(name) in spec.aliases:
            return spec
    raise UnknownName(
        f"there is no backend called {name}",
        hint=f"Installed: {', '.join(backend_names()) or 'none'}. See: rpent-box list",
    )


def find_platform(name: str) -> PlatformPlugin:
    """Return the platform called `name`, by its name or an alias. Raises `UnknownName`."""
    entry = _entries(PLATFORMS).get(_plain(name))
    if entry is not None:
        plugin: PlatformPlugin = entry.load()
        return plugin
    for candidate in platform_names():
        plugin = _entries(PLATFORMS)[candidate].load()
        if _plain(name) in plugin.aliases:
            return plugin
    raise UnknownName(
        f"there is no platform called {name}",
        hint=f"Installed: {', '.join(platform_names()) or 'none'}. See: rpent-box list",
    )


def fitting_backends(action_spaces: set[str]) -> tuple[str, ...]:
    """Return the backends that speak one of `action_spaces`, by their declarations alone."""
    names = []
    for name in backend_names():
        try:
            spoken = find_backend(name).action_spaces
        except (ImportError, AttributeError) as error:
            # One broken plugin must not stop a run that does not need it.
            _log.warning("the backend %s cannot be looked at: %s", name, error)
            continue
        if action_spaces & set(spoken):
            names.append(name)
    return tuple(names)


def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")
