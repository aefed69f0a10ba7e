# SPDX-License-Identifier: Apache-2.0
"""Ends and removes what belongs to a box whose owner is gone. The reaper and `sweep` share it."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from rpent_box.errors import LaunchError
from rpent_box.launch.containers import Found, containers_of, end_containers
from rpent_box.launch.held import remove_tree
from rpent_box.launch.marked import end_processes, is_recorded, marked_processes
from rpent_box.launch.records import RECORDS, ProgramRecord, Records, read_records
from rpent_box.launch.segments import remove_segments_of, segments_of
from rpent_box.transport.paths import BoxPaths

GRACE_S = 3.0
"""For programs that see by themselves, within half a second, that their owner is gone."""


class Cleaned(Struct, frozen=True, kw_only=True):
    """What was there to clean, and what could not be."""

    programs: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def clean_box(paths: BoxPaths, *, grace_s: float = GRACE_S) -> Cleaned:
    """End the programs of a dead box, then remove its files.

    When a program cannot be ended the room stays, so that the next sweep tries again. The caller
    holds the room.
    """
    records = read_records(paths.room / RECORDS)
    ended, left = _end_containers(paths.box, records)
    found = _processes(paths.box, records)
    still_there = end_processes(found, grace_s=grace_s)
    left += [f"process {pid}" for pid in still_there]
    ended += [f"process {pid}" for pid in found if pid not in still_there]
    if left:
        return Cleaned(programs=tuple(ended), left=tuple(left))
    segments, files = remove_files(paths)
    return Cleaned(programs=tuple(ended), segments=segments, left=files)


def look_at_box(paths: BoxPaths) -> Cleaned:
    """Return what `clean_box` would end and remove; touch nothing."""
    records = read_records(paths.room / RECORDS)
    programs = [f"process {pid}" for pid in _processes(paths.box, records)]
    left: tuple[str, ...] = ()
    try:
        programs += [one.describe() for one in _containers(paths.box, records)]
    except LaunchError as error:
        left = (f"containers of box {paths.box} ({error.message})",)
    names = tuple(sorted({path.name for path in segments_of(paths)}))
    return Cleaned(programs=tuple(programs), segments=names, left=left)


def remove_files(paths: BoxPaths) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove segments, grants, results and, last, the room. Return segments, and what stayed."""
    segments = remove_segments_of(paths)
    trees = (paths.grants, paths.results, paths.room)
    left = tuple(str(tree) for tree in trees if not remove_tree(tree))
    with contextlib.suppress(OSError):
        # Only when it is empty: no box of ours is left.
        paths.grants.parent.rmdir()
    return segments, left


def _end_containers(box_id: str, records: Records) -> tuple[list[str], list[str]]:
    """Return the containers that were ended, and why others could not be."""
    try:
        return end_containers(_containers(box_id, records)), []
    except LaunchError as error:
        return [], [f"containers of box {box_id} ({error.message})"]


def _containers(box_id: str, records: Records) -> list[Found]:
    return containers_of(box_id) if records.engine else []


def _processes(box_id: str, records: Records) -> list[int]:
    found = set(marked_processes(box_id))
    for record in records.programs:
        if record.launcher == "process" and _is_there(record, box_id):
            found.add(int(record.identifier))
    return sorted(found)


def _is_there(record: ProgramRecord, box_id: str) -> bool:
    return is_recorded(int(record.identifier), record.started_ticks, box_id)
