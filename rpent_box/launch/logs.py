# SPDX-License-Identifier: Apache-2.0
"""Log files of programs: opened for appending, read from the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from rpent_box.errors import OutputError

_BYTES_PER_LINE = 400


def open_log(path: str | Path) -> IO[bytes]:
    """Open `path` for appending; makes its folder. Raises `OutputError`."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return open(path, "ab", buffering=0)
    except OSError as error:
        raise OutputError(
            f"the log {path} cannot be written: {error.strerror}",
            hint="Is it a folder that you may write to, and is there room? See: df -h",
        ) from error


def last_lines(path: str | Path, count: int) -> str:
    """Return the last `count` lines of the file; empty when there is none. Reads only its end."""
    try:
        with open(path, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - count * _BYTES_PER_LINE))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-count:])
