# SPDX-License-Identifier: Apache-2.0
"""Processes of a box, recognised by a mark in their environment, never by a number alone.

A number may belong to another process by the time that it is used. The mark is inherited, so that
a worker's children are found too, also those that have left its session.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

MARK = "RPENT_BOX_ID"
POLL_S = 0.02
KILL_WAIT_S = 5.0
"""How long the kernel may take to end what was killed."""

_PROC = Path("/proc")
_STATE, _SESSION, _START = 0, 3, 19
# Places in /proc/PID/stat behind the name: the state, the session, the start in clock ticks.


def start_ticks(pid: int) -> int:
    """Return when `pid` started, in clock ticks since boot; 0 when there is no such process."""
    fields = _stat(pid)
    return int(fields[_START]) if fields else 0


def marked_processes(box_id: str, *, session: int | None = None) -> list[int]:
    """Return this user's living processes with the mark of `box_id`, but not the caller.

    With `session`, only those in that session.
    """
    mark = f"{MARK}={box_id}".encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        if session is not None and _session(pid) != session:
            continue
        if mark in _words(entry / "environ") and is_alive(pid):
            found.append(pid)
    return found


def is_recorded(pid: int, ticks: int, box_id: str) -> bool:
    """Return whether `pid` is still the process that started at `ticks` and names `box_id`.

    For a program that has overwritten its environment: its command line names the box as well.
    """
    if ticks == 0 or start_ticks(pid) != ticks or not is_alive(pid):
        return False
    command = b" ".join(_words(_PROC / str(pid) / "cmdline"))
    return box_id.encode() in command


def is_alive(pid: int) -> bool:
    """Return whether `pid` runs; a zombie does not."""
    fields = _stat(pid)
    return bool(fields) and fields[_STATE] not in ("Z", "X")


def end_processes(pids: Iterable[int], *, grace_s: float) -> list[int]:
    """SIGTERM, up to `grace_s`, SIGKILL. Return the numbers that are still there: normally none.

    The caller has just recognised `pids`, so that none of them can be another process yet.
    """
    left = {pid: start_ticks(pid) for pid in pids}
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_WAIT_S)):
        _signal(left, number)
        _wait(left, wait_s)
    return sorted(left)


def _signal(ticks_of: dict[int, int], number: signal.Signals) -> None:
    for pid, ticks in ticks_of.items():
        if start_ticks(pid) != ticks:
            continue
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _wait(ticks_of: dict[int, int], wait_s: float) -> None:
    """Drop from `ticks_of` what has ended, until nothing is left or `wait_s` is over."""
    deadline = time.monotonic() + wait_s
    while True:
        for pid in [pid for pid, ticks in ticks_of.items() if _has_ended(pid, ticks)]:
            del ticks_of[pid]
        if not ticks_of or time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _has_ended(pid: int, ticks: int) -> bool:
    return start_ticks(pid) != ticks or not is_alive(pid)


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[_SESSION]) if fields else None


def _stat(pid: int) -> list[str]:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return []
    # The name in parentheses may hold spaces and parentheses: split behind the last one.
    return text.rpartition(")")[2].split()


def _words(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []  # Gone, or another user's.
