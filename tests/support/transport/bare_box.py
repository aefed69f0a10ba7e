# SPDX-License-Identifier: Apache-2.0
"""A box's directories, without an owner, a lease or a reaper."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from pathlib import Path

from rpent_box.launch.roots import make_grants_root
from rpent_box.transport.paths import SHM, BoxPaths


def make_bare_box(runtime_dir: Path, box: str | None = None) -> BoxPaths:
    """Make room, sockets, grants and results, for their owner alone."""
    paths = BoxPaths.on_host(box or secrets.token_hex(4), runtime_dir=runtime_dir)
    make_grants_root()
    for directory in (paths.room, paths.sockets, paths.grants, paths.results):
        directory.mkdir(mode=0o700)
    return paths


def remove_bare_box(paths: BoxPaths) -> list[str]:
    """Remove it all, and return the segments that nobody had removed."""
    left = list(SHM.glob(f"rpent-box.{paths.box}.*"))
    for segment in left:
        segment.unlink()
    for directory in (paths.room, paths.grants, paths.results):
        shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        # Only when no other box is there.
        paths.grants.parent.rmdir()
    return [segment.name for segment in left]
