# SPDX-License-Identifier: Apache-2.0
"""One command at a time for a folder that is made over hours."""

from __future__ import annotations

from pathlib import Path

from rpent_box.errors import OutputError, TransportError
from rpent_box.transport.lease import Lease

WRITER_FILE = ".writer"
"""It stays, and only its lock counts."""


def only_writer(folder: Path, *, lock_in: Path | None = None) -> Lease:
    """Return the lock of `folder`, which is made if need be; the lock's file may lie in `lock_in`.

    Raises `OutputError`: another command is at work there, or nobody can write there.
    """
    place = lock_in or folder
    try:
        place.mkdir(parents=True, exist_ok=True)
        return Lease.hold(place / WRITER_FILE)
    except TransportError as error:
        raise OutputError(
            f"another command is at work in {folder} at this moment",
            hint="Wait for it, or stop it (Ctrl-C there); this one then goes on.",
        ) from error
    except OSError as error:
        raise OutputError(f"{place} cannot be written: {error.strerror}") from error
