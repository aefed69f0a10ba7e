# SPDX-License-Identifier: Apache-2.0
"""Processor time of a program with all that it started, however far from it by now."""

from __future__ import annotations

import os
from pathlib import Path

MARK = "BENCH_TREE"
"""In the environment of what is measured; its children inherit it."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(mark: str) -> float:
    """Return what the processes with `mark` have used so far, and their children that ended."""
    return sum(_seconds(process) for process in Path("/proc").iterdir() if _has(process, mark))


def _has(process: Path, mark: str) -> bool:
    if not process.name.isdecimal():
        return False
    try:
        return f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to someone else
        return False


def _seconds(process: Path) -> float:
    try:
        stat = (process / "stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S
