# SPDX-License-Identifier: Apache-2.0
"""The two directories that boxes are made in: a user's own, on a machine with other users."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rpent_box.errors import LaunchError
from rpent_box.transport.paths import GRANTS_ROOT


def make_runtime_dir(path: Path) -> None:
    """Make `path` (0700) where needed. Raises `LaunchError` unless it is ours alone."""
    _make_private(path, "the runtime directory", "RPENT_BOX_RUNTIME_DIR=/some/short/path rpent-box")


def make_grants_root(path: Path = GRANTS_ROOT) -> None:
    """Make `path` (0700) where needed. Raises `LaunchError` unless it is ours alone."""
    _make_private(path, "the folder of shared memory", "rpent-box doctor")


def _make_private(path: Path, what: str, command: str) -> None:
    """Make a directory in a place where others may have been quicker, with a link for example."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.stat(path, follow_symlinks=False)
    except OSError as error:
        raise LaunchError(
            f"{what} {path} cannot be made: {error.strerror}",
            hint=f"Is there room, and may you write there? Try: {command}",
        ) from error
    writable_by_others = stat.S_IMODE(status.st_mode) & 0o022
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or writable_by_others:
        raise LaunchError(
            f"{what} {path} is not safe: it must be a directory of yours that nobody else may "
            "write to",
            hint=f"See: ls -ld {path}. Then try: {command}",
        )
