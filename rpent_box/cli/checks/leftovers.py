# SPDX-License-Identifier: Apache-2.0
"""What killed runs have left: looked at, and left alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from rpent_box.cli.checks.finding import Finding, ok, warn
from rpent_box.errors import UsageError
from rpent_box.launch.held import is_dead
from rpent_box.transport.paths import SHM, box_of_segment, check_box_id, default_runtime_dir
from rpent_box.transport.segment import segment_is_dead

YOUNG_S = 60.0
"""What is younger may be in the making."""


def check_leftovers(runtime_dir: Path | None = None, shm: Path = SHM) -> Finding:
    """Dead boxes and shared memory without an owner."""
    boxes = [room.name for room in _dead_rooms(runtime_dir or default_runtime_dir())]
    segments = [path.name for path in _dead_segments(shm)]
    if not boxes and not segments:
        return ok("leftovers", "none")
    parts = [f"dead boxes: {', '.join(boxes)}"] * bool(boxes)
    parts += [f"shared memory without an owner: {', '.join(segments)}"] * bool(segments)
    return warn("leftovers", "; ".join(parts), "rpent-box gc")


def _dead_rooms(home: Path) -> Iterator[Path]:
    for room in _old_and_ours(home):
        try:
            check_box_id(room.name)
        except UsageError:
            continue
        if room.is_dir() and is_dead(room):
            yield room


def _dead_segments(shm: Path) -> Iterator[Path]:
    for path in _old_and_ours(shm):
        if box_of_segment(path.name) is not None and segment_is_dead(path):
            yield path


def _old_and_ours(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_uid == os.geteuid() and time.time() - status.st_ctime > YOUNG_S:
            yield path
