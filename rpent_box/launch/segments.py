# SPDX-License-Identifier: Apache-2.0
"""Shared memory that nobody owns any more."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from rpent_box.transport.paths import GRANTS_ROOT, SHM, BoxPaths, box_of_segment
from rpent_box.transport.segment import segment_is_dead

UNSIZED_S = 60.0
"""An owner locks its segment before it sizes it: an empty one this old was never locked."""


def segments_of(paths: BoxPaths) -> Iterator[Path]:
    """Yield every segment of a box, under each of its names."""
    for directory in (SHM, paths.grants, paths.results):
        for path in _ours(directory):
            if box_of_segment(path.name) == paths.box:
                yield path


def dead_segments() -> Iterator[Path]:
    """Yield this user's segments whose owner is gone, in whichever box, under each of their names.

    A killed client of a living box leaves such a segment.
    """
    for directory in (SHM, *_grant_directories()):
        for path in _ours(directory):
            if box_of_segment(path.name) is not None and _is_dead(path):
                yield path


def remove_segments_of(paths: BoxPaths) -> tuple[str, ...]:
    """Remove every segment of a box that is no more; return their names."""
    return _remove(segments_of(paths))


def remove_dead_segments() -> tuple[str, ...]:
    """Remove what `dead_segments` finds; return their names."""
    return _remove(dead_segments())


def has_living_segment(directory: Path) -> bool:
    """Return whether a segment in `directory` has an owner."""
    return any(
        box_of_segment(path.name) is not None and not _is_dead(path) for path in _ours(directory)
    )


def _remove(paths: Iterator[Path]) -> tuple[str, ...]:
    removed = set()
    for path in paths:
        path.unlink(missing_ok=True)
        removed.add(path.name)
    return tuple(sorted(removed))


def _is_dead(path: Path) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    # Its lock is not even looked at before it has a size: the look itself is a short lock, which
    # its owner could run into.
    if status.st_size == 0 and time.time() - status.st_ctime < UNSIZED_S:
        return False
    return segment_is_dead(path)


def _grant_directories() -> list[Path]:
    try:
        return list(GRANTS_ROOT.iterdir())
    except OSError:
        return []


def _ours(directory: Path) -> Iterator[Path]:
    """Yield the plain files in `directory` that belong to this user."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            yield Path(entry.path)
