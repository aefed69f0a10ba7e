# SPDX-License-Identifier: Apache-2.0
"""Make a folder of episodes a complete LeRobot dataset, whether or not all of them are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from rpent_box.errors import OutputError
from rpent_box_libero.teaching.lerobot.features import (
    COLUMNS,
    VIDEO_KEYS,
    Statistics,
    describe_features,
    summarise,
)
from rpent_box_libero.teaching.lerobot.layout import (
    DATA_PATTERN,
    EPISODES,
    FILES_PER_CHUNK,
    FPS,
    INFO,
    STATISTICS,
    TASKS,
    VIDEO_PATTERN,
    data_path,
    place_of,
    video_path,
)
from rpent_box_libero.teaching.lerobot.recipe import EpisodeRecord
from rpent_box_libero.teaching.lerobot.writer import (
    read_records,
    remove_partials,
    write_bytes,
    write_table,
)


class Finished(Struct, frozen=True, kw_only=True):
    episodes: int
    rows: int
    solved: int


def finish_dataset(folder: Path) -> Finished:
    """Number all rows through and write LeRobot's own files, info.json last.

    What is not part of a recorded episode is removed. Raises `OutputError`.
    """
    unfinish(folder)
    records = read_records(folder)
    if not records:
        raise OutputError(f"{folder} holds no episodes", hint="Generate some first.")
    _remove_unrecorded(folder, records)
    sentences = sorted({record.sentence for record in records})
    rows: list[dict[str, Any]] = []
    statistics: list[Statistics] = []
    start = 0
    for index, record in enumerate(records):
        task = sentences.index(record.sentence)
        _number_rows(folder / data_path(record.number), record.rows, index, start, task)
        rows.append(_describe(record, index, start, task))
        statistics.append(_statistics(record, index, start, task))
        start += record.rows
    write_table(folder / TASKS, _tasks(sentences))
    write_table(folder / EPISODES, pa.Table.from_pylist(rows))
    write_bytes(folder / STATISTICS, _json(_join(statistics)))
    write_bytes(folder / INFO, _json(_info(records, len(sentences))))
    return Finished(
        episodes=len(records),
        rows=start,
        solved=sum(record.solved for record in records),
    )


def unfinish(folder: Path) -> None:
    """Let a folder to which episodes are added not be taken for a complete dataset."""
    (folder / INFO).unlink(missing_ok=True)
    remove_partials(folder)


def _remove_unrecorded(folder: Path, records: Sequence[EpisodeRecord]) -> None:
    wanted = {folder / data_path(record.number) for record in records}
    for key in VIDEO_KEYS:
        wanted |= {folder / video_path(key, record.number) for record in records}
    missing = [path for path in wanted if not path.is_file()]
    if missing:
        raise OutputError(
            f"{len(missing)} files of recorded episodes are missing, e.g. {missing[0]}",
            hint="Remove the records of those episodes in meta/rpent_box: they are made again.",
        )
    for pattern in ("data/*/*.parquet", "videos/*/*/*.mp4"):
        for path in set(folder.glob(pattern)) - wanted:
            path.unlink()


def _number_rows(path: Path, rows: int, episode: int, start: int, task: int) -> None:
    """Write the columns that depend on all episodes, where they are not right already."""
    table = pq.read_table(path)
    if table.num_rows != rows or table.column_names != list(COLUMNS):
        raise OutputError(
            f"{path} is not the data of its record: {table.num_rows} rows, not {rows}, in columns "
            f"{', '.join(table.column_names)}",
            hint="Remove that episode's record in meta/rpent_box: it is made again.",
        )
    numbered = table
    for name, values in {
        "episode_index": np.full(rows, episode, np.int64),
        "index": np.arange(start, start + rows, dtype=np.int64),
        "task_index": np.full(rows, task, np.int64),
    }.items():
        numbered = numbered.set_column(
            numbered.column_names.index(name), name, pa.chunked_array([pa.array(values)])
        )
    if not numbered.equals(table):
        write_table(path, numbered)


def _tasks(sentences: Sequence[str]) -> pa.Table:
    """Return the table that pandas reads as one whose index is `task`."""
    table = pa.table(
        {"task_index": np.arange(len(sentences), dtype=np.int64), "task": list(sentences)}
    )
    column = {"field_name": None, "metadata": None}
    number = {"pandas_type": "int64", "numpy_type": "int64"}
    text = {"pandas_type": "unicode", "numpy_type": "object"}
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {**column, **number, "name": "task_index", "field_name": "task_index"},
            {**column, **text, "name": "task", "field_name": "task"},
        ],
    }
    return table.replace_schema_metadata({"pandas": _json(pandas)})


def _describe(record: EpisodeRecord, index: int, start: int, task: int) -> dict[str, Any]:
    """Return the row of meta/episodes for an episode."""
    chunk, file = place_of(record.number)
    row: dict[str, Any] = {
        "episode_index": index,
        "tasks": [record.sentence],
        "length": record.rows,
        "data/chunk_index": chunk,
        "data/file_index": file,
        "dataset_from_index": start,
        "dataset_to_index": start + record.rows,
    }
    for key in VIDEO_KEYS:
        row[f"videos/{key}/chunk_index"] = chunk
        row[f"videos/{key}/file_index"] = file
        row[f"videos/{key}/from_timestamp"] = 0.0
        row[f"videos/{key}/to_timestamp"] = record.rows / FPS
    row |= {
        "meta/episodes/chunk_index": 0,
        "meta/episodes/file_index": 0,
        "rpent_box/number": record.number,
        "rpent_box/lesson": record.lesson,
        "rpent_box/solved": record.solved,
        "rpent_box/level": record.level,
        "rpent_box/student": record.student_acts,
        "rpent_box/initial_state": list(record.initial_state),
    }
    for name, statistics in _statistics(record, index, start, task).items():
        row |= {f"stats/{name}/{kind}": values for kind, values in statistics.items()}
    return row


def _statistics(record: EpisodeRecord, index: int, start: int, task: int) -> Statistics:
    """Return an episode's statistics with those of the columns that were numbered through."""
    ones = np.ones((record.rows, 1))
    return record.statistics | {
        "episode_index": summarise(index * ones, record.rows),
        "index": summarise(start + ones.cumsum(0) - 1, record.rows),
        "task_index": summarise(task * ones, record.rows),
    }


def _join(parts: Sequence[Statistics]) -> Statistics:
    """Return the statistics of all episodes from those of each."""
    return {name: _join_one([part[name] for part in parts]) for name in parts[0]}


def _join_one(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    stacked = {kind: np.array([part[kind] for part in parts], float) for kind in parts[0]}
    counts = stacked["count"].reshape(-1, *[1] * (stacked["mean"].ndim - 1))
    total = counts.sum()
    mean = (counts * stacked["mean"]).sum(0) / total
    variance = (counts * (stacked["std"] ** 2 + (stacked["mean"] - mean) ** 2)).sum(0) / total
    return {
        "min": stacked["min"].min(0).tolist(),
        "max": stacked["max"].max(0).tolist(),
        "mean": mean.tolist(),
        "std": np.sqrt(variance).tolist(),
        "count": [int(total)],
    }


def _info(records: Sequence[EpisodeRecord], tasks: int) -> dict[str, Any]:
    return {
        "codebase_version": "v3.0",
        "robot_type": "panda",
        "total_episodes": len(records),
        "total_frames": sum(record.rows for record in records),
        "total_tasks": tasks,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{len(records)}"},
        "data_path": DATA_PATTERN,
        "video_path": VIDEO_PATTERN,
        "features": describe_features(),
    }


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
