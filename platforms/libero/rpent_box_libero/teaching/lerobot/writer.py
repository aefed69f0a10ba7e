# SPDX-License-Identifier: Apache-2.0
"""Write single episodes: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rpent_box.errors import OutputError
from rpent_box.sim.lines import sync_folder
from rpent_box_libero.teaching.episode import Episode
from rpent_box_libero.teaching.lerobot.features import (
    VIDEO_KEYS,
    columns_of,
    statistics_of,
    table_of,
)
from rpent_box_libero.teaching.lerobot.layout import (
    RECORDS,
    data_path,
    record_path,
    video_path,
)
from rpent_box_libero.teaching.lerobot.recipe import EpisodeRecord
from rpent_box_libero.teaching.lerobot.video import write_video

PARTIAL = ".partial"


def write_episode(folder: Path, number: int, lesson: str, episode: Episode) -> EpisodeRecord:
    """Write the files of an episode, its record last. Raises `OutputError`."""
    columns = columns_of(episode, number)
    frames = {
        role: [row.observation.images[role] for row in episode.rows] for role in VIDEO_KEYS.values()
    }
    record = EpisodeRecord(
        number=number,
        lesson=lesson,
        sentence=episode.sentence,
        rows=len(episode.rows),
        steps=episode.steps,
        solved=episode.solved,
        level=episode.level,
        student_acts=episode.student_acts,
        initial_state=tuple(episode.initial_state.tolist()),
        statistics=statistics_of(columns, frames),
    )
    for key, role in VIDEO_KEYS.items():
        write_whole(folder / video_path(key, number), partial(write_video, frames=frames[role]))
    write_table(folder / data_path(number), table_of(columns))
    write_bytes(folder / record_path(number), msgspec.json.encode(record))
    return record


def read_records(folder: Path) -> list[EpisodeRecord]:
    """Return the records of all episodes that are there, in order. Raises `OutputError`."""
    decoder = msgspec.json.Decoder(EpisodeRecord)
    records = []
    for path in sorted((folder / RECORDS).glob("episode-*.json")):
        try:
            records.append(decoder.decode(path.read_bytes()))
        except (OSError, msgspec.DecodeError) as error:
            raise OutputError(
                f"{path} is not an episode's record: {error}",
                hint="Remove that file: its episode is then made again.",
            ) from error
    return records


def write_table(path: Path, table: pa.Table) -> None:
    """Write a parquet file. Raises `OutputError`."""
    write_whole(path, lambda partial: pq.write_table(table, partial))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file. Raises `OutputError`."""
    write_whole(path, lambda partial: partial.write_bytes(data))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, and put it there once the disk has it.

    Raises `OutputError`; then nothing is left of it.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Make room, or choose another --out.",
        ) from error


def remove_partials(folder: Path) -> None:
    """Remove what a killed writer left. Only where nobody writes."""
    for path in folder.rglob(f".*{PARTIAL}"):
        path.unlink(missing_ok=True)
