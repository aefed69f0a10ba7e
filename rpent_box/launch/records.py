# SPDX-License-Identifier: Apache-2.0
"""What a box has started, on the disk, for whoever must end it when the box's owner cannot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

RECORDS = "programs.json"
"""Name of the file in a box's room."""


class ProgramRecord(Struct, frozen=True, kw_only=True):
    """One started program."""

    launcher: Literal["docker", "process"]
    identifier: str
    """A process id or a container id."""
    name: str
    """For reports, e.g. `worker mini-wam`."""
    log: str
    started_ticks: int = 0
    """Of a process: when it started, in the kernel's clock ticks since boot."""


class Records(Struct, frozen=True, kw_only=True):
    """The contents of `programs.json`."""

    engine: bool = False
    """A container may have been made, perhaps one that is not in `programs` yet."""
    programs: tuple[ProgramRecord, ...] = ()


def read_records(path: Path) -> Records:
    """Return what was written at `path`; nothing when there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Records)
    except (OSError, msgspec.DecodeError):
        # Containers are found by label and processes by their mark: records only make it quicker,
        # except for `engine`, which is why a broken file counts as true.
        return Records(engine=path.exists())


def write_records(path: Path, records: Records) -> None:
    """Replace the file at `path` at once, so that a reader never sees half of it."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(records))
    os.replace(draft, path)
