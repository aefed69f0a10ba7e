# SPDX-License-Identifier: Apache-2.0
"""Logs of a cluster's machines, brought to the evaluation's folder while they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rpent_box.errors import OutputError
from rpent_box.evaluate.scale.ray_files import require_plain

MOST_BYTES = 65_536
"""Of one log at a time. Of one that grows faster, the middle is left out."""


class LogReader:
    """Reads what is new in the logs of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def news(self) -> dict[str, bytes]:
        """Return log → what it got since the last call; those without news are left out."""
        found = {path.name: self._new(path) for path in sorted(self._folder.glob("*.log"))}
        return {name: data for name, data in found.items() if data}

    def _new(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                start, end = self._read.get(path.name, 0), file.seek(0, 2)
                skipped = max(0, end - start - MOST_BYTES)
                file.seek(start + skipped)
                data = file.read(MOST_BYTES)
        except OSError:
            # Its folder goes with its box.
            return b""
        self._read[path.name] = start + skipped + len(data)
        return b"\n[%d bytes left out]\n%b" % (skipped, data) if skipped else data


def append_logs(folder: Path, logs: Mapping[str, bytes]) -> None:
    """Write what a machine has said at the end of its logs in `folder`, which is made.

    Raises `OutputError`, and `ProtocolMismatch` for what is not a file's name.
    """
    for name, data in logs.items():
        require_plain(name)
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
