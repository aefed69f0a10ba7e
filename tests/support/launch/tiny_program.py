# SPDX-License-Identifier: Apache-2.0
"""A real program for a box, without a model: `python -m tiny_program BOX [--what-it-does …]`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("box")
    parser.add_argument("--lease", type=Path, help="end when nobody holds it, as workers do")
    parser.add_argument("--segment", help="make a segment with this name")
    parser.add_argument("--grants", type=Path)
    parser.add_argument("--socket", type=Path, help="leave a socket's file")
    parser.add_argument("--stubborn", action="store_true", help="ignore SIGTERM")
    parser.add_argument("--children", type=int, default=0, help="stubborn ones, outside my session")
    parser.add_argument("--exit", type=int, help="end at once with this code")
    parser.add_argument("--say", default="ready")
    parser.add_argument("--show", nargs="*", default=(), help="print these variables")
    given = parser.parse_args()
    if given.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    segment = _segment(given.segment, given.grants)
    if given.socket:
        given.socket.touch()
    for _ in range(given.children):
        subprocess.Popen(
            [sys.executable, "-m", "tiny_program", "child", "--stubborn"],
            start_new_session=True,
        )
    for name in given.show:
        sys.stdout.write(f"{name}={os.environ.get(name)}\n")
    sys.stdout.write(f"{given.say}\n")
    sys.stdout.flush()
    if given.exit is not None:
        return given.exit
    _stay(given.lease)
    del segment
    return 0


def _segment(name: str | None, grants: Path | None) -> object:
    if name is None:
        return None
    # Late: where no segment is wanted, a Python without any package will do.
    from rpent_box.transport.segment import Segment

    return Segment.create(name, 4096, grants=grants)


def _stay(lease: Path | None) -> None:
    if lease is None:
        while True:
            time.sleep(3600)
    from rpent_box.transport.lease import LeaseWatch

    watch = LeaseWatch(lease)
    while not watch.wait(3600):
        continue


if __name__ == "__main__":
    sys.exit(main())
