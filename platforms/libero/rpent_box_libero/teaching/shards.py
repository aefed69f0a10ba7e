# SPDX-License-Identifier: Apache-2.0
"""Demonstrations on disk: folders of `.npz` shards that hold frames as the platform shows them.

One shard holds the rows of a run of episodes. Columns, first axis the row:

    image_primary, image_wrist   uint8 [rows, 256, 256, 3], upright RGB
    eef_position, …              float32 [rows, n], the platform's proprio under its own names
    actions                      float32 [rows, 10, 7], what the expert would do from here
    thing_position, goal_position  float32 [rows, 3], metres, world frame
    progress                     float32 [rows], 0 to 1
    next_row                     int64 [rows], the row in this shard that shows what comes of
                                 `actions`; -1: there is none
    episode                      int64 [rows]
    student_acts                 bool [rows]
    header                       text: `ShardHeader` as JSON
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from rpent_box.errors import OutputError
from rpent_box_libero.teaching.episode import Columns, Recording

FORMAT = 1


class ShardHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decided a shard's content."""

    format: int = FORMAT
    suite: str
    task: int
    instruction: str = ""
    seed: int
    first_episode: int
    episodes: int
    recording: Recording
    student: str = ""
    """Which weights acted: backend and SHA-256; empty for none."""
    solved: int = 0
    """Episodes that reached success."""


def shard_path(folder: Path, seed: int, first_episode: int) -> Path:
    return folder / f"seed-{seed}-episode-{first_episode:06d}.npz"


def write_shard(path: Path, header: ShardHeader, columns: Columns) -> None:
    """Write a shard whole or not at all. Raises `OutputError`."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            text = np.array(msgspec.json.encode(header).decode())
            np.savez_compressed(file, **{**columns, "header": text})  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def read_header(path: Path) -> ShardHeader:
    """Return what a shard says about itself, without reading its columns."""
    with np.load(path, allow_pickle=False) as shard:
        return msgspec.json.decode(str(shard["header"]), type=ShardHeader)


def is_finished(path: Path, wanted: ShardHeader) -> bool:
    """Whether `path` already holds what `wanted` asks for.

    Raises `OutputError` when it holds something else: two recipes must not mix in one folder.
    """
    if not path.exists():
        return False
    found = read_header(path)
    if found == msgspec.structs.replace(wanted, instruction=found.instruction, solved=found.solved):
        return True
    raise OutputError(
        f"{path} was made with other settings: {msgspec.json.encode(found).decode()}",
        hint="Choose another --out, or remove that file.",
    )
