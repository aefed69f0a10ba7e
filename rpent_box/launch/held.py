# SPDX-License-Identifier: Apache-2.0
"""Directories that tell by a lock whether whoever made them still lives.

    owner    mkdir, open, flock(LOCK_EX), look again        … until it closes or dies
    sweeper  open, flock(LOCK_EX | LOCK_NB), look again     only a dead owner's lock can be taken

Between an owner's mkdir and its flock a sweeper may take the lock and remove the directory. Both
therefore look again once they hold the lock: a directory that is no longer at its path was lost to
the other, and an owner simply makes another one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType


class HeldDirectory:
    """An open, locked directory. `release` lets go of it, `remove` also deletes it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def create(cls, path: Path) -> HeldDirectory | None:
        """Make `path` (0700) and hold it. None: it was lost to a sweeper; take another name.

        Raises FileExistsError, and OSError when it cannot be made.
        """
        path.mkdir(mode=0o700)
        return cls.take(path)

    @classmethod
    def take(cls, path: Path) -> HeldDirectory | None:
        """Hold an existing directory. None: someone holds it, or it has gone. Never waits."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        if _lock(descriptor) and _is_at(descriptor, path):
            return cls(path, descriptor)
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Let go. May be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def remove(self) -> None:
        """Delete the directory with all that is in it, then let go. May be called twice."""
        if self._descriptor is not None:
            remove_tree(self.path)
        self.release()

    def __enter__(self) -> HeldDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def remove_tree(path: Path) -> bool:
    """Delete `path`; two may do so at once. Return whether it is gone."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


def is_dead(path: Path) -> bool:
    """Return whether the directory at `path` has no living owner; true when there is none."""
    held = HeldDirectory.take(path)
    if held is None:
        return not path.exists()
    held.release()
    return True


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (now.st_dev, now.st_ino) == (opened.st_dev, opened.st_ino)
