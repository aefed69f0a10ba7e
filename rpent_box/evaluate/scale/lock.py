# SPDX-License-Identifier: Apache-2.0
"""One writer at a time for an evaluation's folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from rpent_box.errors import OutputError, TransportError
from rpent_box.sim.lines import cannot_write
from rpent_box.transport.lease import Lease

LOCK_FILE = ".writer"
"""Holds the writer's process id, for the refusal's text. It stays, and only its lock counts: one
that was removed could be locked twice, by who opened it before and who made it anew."""


class WriterLock:
    """Held for as long as its owner lives. A context manager; close() may be called twice."""

    def __init__(self, run_dir: Path) -> None:
        """Take the lock. Raises `OutputError`: another evaluation writes there, or nobody can."""
        path = run_dir / LOCK_FILE
        try:
            self._lease = Lease.hold(path)
        except TransportError as error:
            raise _busy(run_dir, _holder(path)) from error
        except OSError as error:
            raise cannot_write(path, error) from error
        # A full disk takes no name; the lock is held all the same.
        with suppress(OSError):
            path.write_text(f"{os.getpid()}\n")

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go. May be called twice."""
        self._lease.close()


def _holder(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _busy(run_dir: Path, pid: str) -> OutputError:
    who = f"process {pid}" if pid.isdecimal() else "another process"
    return OutputError(
        f"{who} is playing the evaluation in {run_dir} at this moment",
        hint="Wait for it, or stop it (Ctrl-C there) and resume: "
        f"rpent-box eval --resume {run_dir}",
    )
