# SPDX-License-Identifier: Apache-2.0
"""`python -m rpent_box.launch.reaper BOX --runtime-dir DIR`: ends a box whose owner has died.

Started with each box, detached from it. It sleeps in the kernel until the box's lease is let go of,
which happens however the owner ends, and then cleans up. After a normal close there is nothing left
and it ends at once.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rpent_box.launch.cleaning import clean_box
from rpent_box.launch.held import HeldDirectory
from rpent_box.launch.segments import remove_dead_segments
from rpent_box.transport.paths import BoxPaths

TAKE_TIMEOUT_S = 30.0
"""How long a sweep that is cleaning the same box may take."""
POLL_S = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Wait, clean up, and return 0 when nothing is left."""
    parser = argparse.ArgumentParser(prog="python -m rpent_box.launch.reaper")
    parser.add_argument("box")
    parser.add_argument("--runtime-dir", type=Path, required=True)
    given = parser.parse_args(arguments)
    paths = BoxPaths.on_host(given.box, runtime_dir=given.runtime_dir)
    _detach()
    if not wait_for_owner(paths.lease):
        return 0
    return 1 if reap(paths) else 0


def wait_for_owner(lease: Path) -> bool:
    """Sleep until the owner of `lease` is gone; false when the box has gone already."""
    try:
        descriptor = os.open(lease, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    return True


def reap(paths: BoxPaths) -> tuple[str, ...]:
    """Clean up after `paths` unless its owner or a sweep has; return what could not be cleaned."""
    room = _take(paths.room)
    if room is None:
        return ()
    with room:
        left = clean_box(paths).left
    # Its simulators may have been clients of another box, which lives on.
    remove_dead_segments()
    return left


def _take(room: Path) -> HeldDirectory | None:
    deadline = time.monotonic() + TAKE_TIMEOUT_S
    while room.exists():
        held = HeldDirectory.take(room)
        if held is not None or time.monotonic() >= deadline:
            return held
        time.sleep(POLL_S)
    return None


def _detach() -> None:
    # What ends the owner, a closing terminal for one, must not end this.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
