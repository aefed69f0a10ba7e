# SPDX-License-Identifier: Apache-2.0
"""What a container must see of the host's disk to read files that were given by path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rpent_box.launch.program import Mount


def mounts_of(paths: Sequence[Path]) -> tuple[Mount, ...]:
    """Return read-only mounts under which each of `paths` is where it is here.

    Model hubs keep a checkpoint as links into another folder; those folders are mounted as well, at
    their own paths, so that relative and absolute links lead to the same files.
    """
    wanted = set(paths)
    for path in paths:
        for link in _links(path):
            wanted |= _beyond(link)
    outermost = [path for path in wanted if not any(parent in wanted for parent in path.parents)]
    return tuple(Mount(str(path), str(path)) for path in sorted(outermost))


def _links(given: Path) -> list[Path]:
    if given.is_symlink():
        return [given]
    found = []
    for folder, folders, files in os.walk(given):
        found += [Path(folder) / name for name in (*folders, *files)]
    return [path for path in found if path.is_symlink()]


def _beyond(link: Path) -> set[Path]:
    """Return the folders that `link` and the links behind it lead to; nothing if it is broken."""
    folders = set()
    while link.is_symlink():
        link = Path(os.path.normpath(link.parent / os.readlink(link)))
        folders.add(link.parent if not link.is_dir() or link.is_symlink() else link)
    return folders if link.exists() else set()
