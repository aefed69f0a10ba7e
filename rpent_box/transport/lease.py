# SPDX-License-Identifier: Apache-2.0
"""A lock that says "my owner lives": the kernel lets go of it however the owner ends.

It works between host and containers, over read-only mounts, and needs no clock. Children of the
owner, forked or executed, do not keep it alive.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from rpent_box.errors import TransportError
from rpent_box.transport.forks import abandon_in_children

POLL_S = 0.5
"""How often everyone else looks."""


class Lease:
    """The owner's side: a held `flock(LOCK_EX)`. A context manager; close() may be called twice."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        abandon_in_children(self)

    @classmethod
    def hold(cls, path: Path) -> Lease:
        """Create `path` where needed and lock it, or raise `TransportError` when it is held."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not lock_exclusively(descriptor):
            os.close(descriptor)
            raise TransportError(f"the lease {path} already has a living owner")
        return cls(path, descriptor)

    def close(self) -> None:
        """Let go. The file stays: whoever made the room removes it."""
        self.abandon()

    def abandon(self) -> None:
        """Let go of the lock's descriptor and remove nothing: for forked children."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def lock_exclusively(descriptor: int, *, patience_s: float = 0.2) -> bool:
    """Take `flock(LOCK_EX)`; False when another owner holds it for longer than `patience_s`.

    Those who only look hold a shared lock for an instant, which must not pass for an owner.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        else:
            return True


def owner_is_gone(path: Path) -> bool:
    """Tell whether nobody holds the lease at `path`. A missing file has no owner either."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


class LeaseWatch:
    """Asks at most every `poll_s` seconds, so that a busy loop may ask as often as it likes."""

    def __init__(self, path: Path, *, poll_s: float = POLL_S) -> None:
        self.path = path
        self._poll_s = poll_s
        self._next_look = 0.0
        self._gone = False

    def is_gone(self) -> bool:
        """Tell whether the owner is gone. Once gone, gone for good."""
        now = time.monotonic()
        if not self._gone and now >= self._next_look:
            self._gone = owner_is_gone(self.path)
            self._next_look = now + self._poll_s
        return self._gone

    def wait(self, timeout_s: float) -> bool:
        """Block until the owner is gone or `timeout_s` has passed; tell whether it is gone."""
        deadline = time.monotonic() + timeout_s
        while not self.is_gone():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, self._poll_s))
        return True
