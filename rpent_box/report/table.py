# SPDX-License-Identifier: Apache-2.0
"""One row per episode, flat: the columns of CSV and Parquet, with their units and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.evaluate.scale.plan import TaskKey
from rpent_box.report.load import Entry, Folder
from rpent_box.sim.results import EpisodeRow, episode_folder_name
from rpent_box.sim.stopwatch import STAGES

Kind: TypeAlias = Literal["text", "integer", "number", "boolean"]
Value: TypeAlias = str | int | float | bool | None


class Column(Struct, frozen=True, kw_only=True):
    """One column of the table."""

    name: str
    kind: Kind
    value: Callable[[Folder, EpisodeRow], Value]
    says: str
    """What it is, for docs and for Parquet's metadata."""


def table_of(entries: Sequence[Entry]) -> Iterator[tuple[Value, ...]]:
    """Yield the values of every finished episode, in the order of `COLUMNS`."""
    for entry in entries:
        for folder, row in entry.rows():
            yield tuple(column.value(folder, row) for column in COLUMNS)


def _task_name(folder: Folder, row: EpisodeRow) -> str:
    return folder.task_names.get(TaskKey(row.suite, row.task), "")


def _backend(folder: Folder, row: EpisodeRow) -> str:
    deciding = folder.setup.deciding
    return deciding.get("worker.meta.backend") or deciding.get("backend", "")


def _checkpoint(folder: Folder, row: EpisodeRow) -> str | None:
    return folder.setup.deciding.get("worker.meta.checkpoint")


def _stage(name: str) -> Callable[[Folder, EpisodeRow], float | None]:
    return lambda folder, row: row.stages_s.get(name)


def _other(folder: Folder, row: EpisodeRow) -> float:
    """Return what no column of its own has."""
    rest = sum(value for name, value in row.stages_s.items() if name not in STAGES)
    return row.stages_s.get("other", 0.0) + rest


def _within(name: str | None, row: EpisodeRow) -> str | None:
    return None if name is None else f"{episode_folder_name(row.episode)}/{name}"


def _remarks(folder: Folder, row: EpisodeRow) -> str | None:
    return msgspec.json.encode(row.remarks).decode() if row.remarks else None


def _column(
    name: str, kind: Kind, says: str, value: Callable[[Folder, EpisodeRow], Value] | None = None
) -> Column:
    taken = value or (lambda folder, row: getattr(row, name))
    return Column(name=name, kind=kind, value=taken, says=says)


STAGES_SAY = {
    "simulate": "stepping the physics",
    "render": "drawing the cameras",
    "transport": "waiting for the worker beyond what it measured",
    "queue": "waiting in the worker's queue",
    "encode": "preparing the observation for the model",
    "infer": "the model; of a batch, its whole time",
    "decode": "turning its output into actions",
}

COLUMNS: tuple[Column, ...] = (
    _column("run", "text", "the run folder's name"),
    _column("platform", "text", "the simulator", lambda folder, row: folder.platform),
    _column("backend", "text", "the model", _backend),
    _column("checkpoint", "text", "what it had loaded; missing: not known", _checkpoint),
    _column("suite", "text", "the task's suite"),
    _column("task", "integer", "its index within the suite"),
    _column("task_name", "text", "its name", _task_name),
    _column("init_state", "integer", "which initial state it started from"),
    _column("seed", "integer", "of the simulator and of the model's noise"),
    _column("episode", "integer", "its index within the run"),
    _column("instruction", "text", "the sentence that the model was given"),
    _column("success", "boolean", "the task was solved"),
    _column("steps", "integer", "executed"),
    _column("max_steps", "integer", "allowed"),
    _column("predictions", "integer", "asked of the model"),
    _column("execute_steps", "integer", "executed of each prediction, at most"),
    _column("wall_s", "number", "acting; neither building the scene nor the video"),
    _column("setup_s", "number", "building or restoring the scene"),
    *(
        _column(f"{name}_s", "number", f"of `wall_s`: {says}", _stage(name))
        for name, says in STAGES_SAY.items()
    ),
    _column("other_s", "number", "of `wall_s`: everything else", _other),
    _column("video_s", "number", "writing the video"),
    _column(
        "expected_db",
        "number",
        "PSNR of frames that the model expected, against what was then seen; missing: none",
    ),
    _column("copied_db", "number", "the same for expecting that nothing changes"),
    _column(
        "restarts",
        "integer",
        "attempts before this one, lost with their simulator",
        lambda folder, row: len(row.restarts),
    ),
    _column("remarks", "text", "remark → steps, as JSON; missing: none", _remarks),
    _column("first_frames_sha256", "text", "of the first observation's images"),
    _column("actions_sha256", "text", "of the executed actions"),
    _column(
        "video",
        "text",
        "path within the run's folder; missing: none",
        lambda folder, row: _within(row.video, row),
    ),
    _column(
        "thumbnail",
        "text",
        "path within the run's folder; missing: none",
        lambda folder, row: _within(row.thumbnail, row),
    ),
    _column("session", "integer", "which sitting of an evaluation played it"),
    _column(
        "simulator",
        "text",
        "which of its simulators; missing: there was one only",
        lambda folder, row: row.simulator or None,
    ),
    _column("finished_at", "text", "UTC, ISO 8601"),
)
