# SPDX-License-Identifier: Apache-2.0
"""Cleans up after boxes whose owner died and whose reaper could not: at each start, and by `gc`.

It never touches a living box, another user's things, or another machine's containers. Two sweeps
at once, or a box made meanwhile, do no harm: see `held`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from rpent_box.errors import LaunchError, UsageError
from rpent_box.launch.cleaning import clean_box, look_at_box
from rpent_box.launch.containers import end_containers, lost_containers
from rpent_box.launch.engine_socket import engine_answers
from rpent_box.launch.held import HeldDirectory
from rpent_box.launch.segments import (
    dead_segments,
    has_living_segment,
    remove_dead_segments,
)
from rpent_box.transport.paths import GRANTS_ROOT, BoxPaths, check_box_id, default_runtime_dir

LOST_S = 60.0
"""How old a grant directory without an owner must be."""


class SweepReport(Struct, frozen=True, kw_only=True):
    """What a sweep found. All empty: there was nothing to do."""

    boxes: tuple[str, ...] = ()
    """Ids of dead boxes: removed, or found by a dry run, as everything else here."""
    programs: tuple[str, ...] = ()
    """Processes and containers that were ended."""
    segments: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What could not be cleaned, and why."""
    living: tuple[str, ...] = ()
    """Ids of boxes that have an owner; nothing of theirs was touched."""


def sweep(
    runtime_dir: Path | str | None = None, *, containers: bool = False, dry_run: bool = False
) -> SweepReport:
    """Remove what dead boxes have left; with `dry_run`, only find it.

    With `containers`, also ask the engine for containers of boxes that are gone without a trace;
    without, it is only asked where a dead box's records speak of containers.
    """
    home = Path(runtime_dir).absolute() if runtime_dir else default_runtime_dir()
    dead, living = [], []
    programs: list[str] = []
    segments: list[str] = []
    left: list[str] = []
    for paths in _rooms(home):
        room = HeldDirectory.take(paths.room)
        if room is None:
            # Held, or removed by another sweep since we listed it.
            living += [paths.box] * paths.room.exists()
            continue
        with room:
            cleaned = look_at_box(paths) if dry_run else clean_box(paths)
        dead.append(paths.box)
        programs += cleaned.programs
        segments += cleaned.segments
        left += cleaned.left
    if containers:
        lost, why_not = _clean_lost_containers(dry_run=dry_run)
        programs += [one for one in lost if one not in programs]
        left += why_not
    if dry_run:
        segments += [path.name for path in dead_segments()]
    else:
        _remove_lost_grants()
        segments += remove_dead_segments()
    return SweepReport(
        boxes=tuple(dead),
        programs=tuple(programs),
        segments=tuple(sorted(set(segments))),
        left=tuple(left),
        living=tuple(living),
    )


def _rooms(home: Path) -> Iterator[BoxPaths]:
    """Yield the boxes of this user in `home`, living or dead."""
    for directory in _own_directories(home):
        try:
            check_box_id(directory.name)
        except UsageError:
            continue
        yield BoxPaths.on_host(directory.name, runtime_dir=home)


def _remove_lost_grants() -> None:
    """Remove grant directories without an owner, whichever runtime directory their box was in.

    Only old ones without a living segment: a program that is no box's may share memory too.
    """
    for directory in _own_directories(GRANTS_ROOT):
        if has_living_segment(directory) or _age_s(directory) < LOST_S:
            continue
        held = HeldDirectory.take(directory)
        if held is not None:
            held.remove()


def _clean_lost_containers(*, dry_run: bool) -> tuple[list[str], list[str]]:
    if not engine_answers():
        return [], []
    try:
        found = lost_containers()
        return [one.describe() for one in found] if dry_run else end_containers(found), []
    except LaunchError as error:
        return [], [f"containers ({error.message})"]


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _own_directories(home: Path) -> list[Path]:
    try:
        entries = list(os.scandir(home))
    except OSError:
        return []
    found = []
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if entry.is_dir(follow_symlinks=False) and status.st_uid == os.geteuid():
            found.append(Path(entry.path))
    return sorted(found)
