# SPDX-License-Identifier: Apache-2.0
"""What a container must see of the host's disk to read files that were given by path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rpent_box.errors import BadOption
from rpent_box.launch.program import Mount
from rpent_box.transport.paths import CONTAINER_ROOM

_SYSTEM = tuple(
    Path(name)
    for name in (
        *("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys"),
        *("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin"),
    )
)
_OWN = (*_SYSTEM, CONTAINER_ROOM, *map(Path, ("/opt/rpent-box", "/tmp", "/usr/local/bin")))
"""Places without which no container works. A mount at one of them, or around it, would hide it."""


def mounts_of(paths: Sequence[Path]) -> tuple[Mount, ...]:
    """Return read-only mounts under which each of `paths` is where it is here.

    Model hubs keep a checkpoint as links into another folder; those folders are mounted as well, at
    their own paths, so that relative and absolute links lead to the same files. Raises `BadOption`
    for a path that holds the system's own places, such as `/`. A link to such a place is left as it
    is: in a container it leads to the container's own.
    """
    for path in paths:
        _require_showable(path)
    wanted, left = set(paths), list(paths)
    while left:
        for link in _links(left.pop()):
            # What is shown must be whole, so links within it are followed too.
            new = [place for place in _behind(link) if not _is_within(place, wanted)]
            wanted.update(new)
            left += new
    outermost = [path for path in wanted if not _is_within(path.parent, wanted)]
    return tuple(Mount(str(path), str(path)) for path in sorted(outermost))


def _is_within(path: Path, wanted: set[Path]) -> bool:
    return path in wanted or any(parent in wanted for parent in path.parents)


def _require_showable(path: Path) -> None:
    if _holds(path, _OWN):
        raise BadOption(
            f"{path} cannot be shown to a container, which has files of its own there",
            hint="Give the folder that holds the files and nothing else, or: --launcher process",
        )


def _links(given: Path) -> Iterator[Path]:
    """Yield the links in a folder, however deep; `given` itself where it is one."""
    if given.is_symlink():
        yield given
        return
    folders = [str(given)] if os.path.isdir(given) else []
    while folders:
        # Unlike a look at each file, a listing tells links for nothing: assets are 100,000 files.
        for entry in _listed(folders.pop()):
            if entry.is_symlink():
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        # Closed to us, and so to a container that runs as us.
        return []


def _behind(link: Path) -> list[Path]:
    """Return what shows where `link` and the links behind it lead to; nothing if it is broken."""
    # First, since a link that leads back to itself has no end.
    if not os.path.exists(link):
        return []
    places = []
    while link.is_symlink():
        link = Path(os.path.normpath(link.parent / os.readlink(link)))
        places += _shown(link)
    return places


def _shown(target: Path) -> list[Path]:
    """Return what shows the end of a link; nothing where a container has its own."""
    if any(target.is_relative_to(place) for place in _SYSTEM):
        return []
    if os.path.isdir(target) and not target.is_symlink():
        return [] if _holds(target, _OWN) else [target]
    # Its folder, since a hub keeps thousands of files in one; but nobody's whole home.
    home = Path(os.path.expanduser("~"))
    return [target if _holds(target.parent, (*_OWN, home)) else target.parent]


def _holds(folder: Path, places: Sequence[Path]) -> bool:
    return any(place.is_relative_to(folder) for place in places)
