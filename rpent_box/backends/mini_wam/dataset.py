# SPDX-License-Identifier: Apache-2.0
"""Demonstrations as training needs them: the numbers in memory, the frames on the disk."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import join_proprio
from rpent_box.backends.mini_wam.demonstrations import (
    EXECUTED_STEPS,
    Demonstrations,
    Episode,
    read_demonstrations,
)
from rpent_box.backends.mini_wam.frames import Frames, cached_frames
from rpent_box.backends.mini_wam.manifest import Statistics
from rpent_box.backends.mini_wam.reserved import is_reserved
from rpent_box.errors import BadOption

HELD_OUT_OF = 17
"""About one episode of so many judges and does not teach."""
HELD_OUT_BY = f"sha256 of seed/lesson/number, 1 of {HELD_OUT_OF}"
"""Names `is_held_out`; trainings record it. Another rule is another name."""
SMALLEST_DEVIATION = 0.01
"""A number that hardly moves would be blown up by dividing by its deviation."""
ROWS_TO_THE_FUTURE = 2
"""Two rows of five control steps: as far as an action chunk reaches."""


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder of demonstrations, as a checkpoint remembers it."""

    folder: str
    sha256: str
    seed: str
    student: str
    """Whose actions it holds beside the expert's; empty for none."""
    episodes: int
    rows: int
    rows_by_lesson: dict[str, int]


@dataclass(frozen=True)
class Dataset:
    """Rows of all folders, first axis the row."""

    frames: Frames
    proprio: NDArray[np.float32]
    """[rows, 9], not normalised."""
    sentence: NDArray[np.int64]
    """Of the row, in `sentences`."""
    lesson: NDArray[np.int64]
    """Of the row, in `lessons`."""
    actions: NDArray[np.float32]
    """[rows, 10, 7]: what the expert would do."""
    executed: NDArray[np.float32]
    """[rows, 10, 7]: what was done; wherever there is a future."""
    places: NDArray[np.float32]
    """[rows, 6]: the thing's and the goal's position."""
    progress: NDArray[np.float32]
    future: NDArray[np.int64]
    """The row ten control steps later, or -1 where the episode ends before."""
    held_out: NDArray[np.bool_]
    student_acts: NDArray[np.bool_]
    sentences: tuple[str, ...]
    lessons: tuple[str, ...]
    sources: tuple[Source, ...]

    def __len__(self) -> int:
        return len(self.actions)

    def statistics(self) -> Statistics:
        """Return mean and deviation of the proprio of the rows that teach."""
        taught = self.proprio[~self.held_out].astype(np.float64)
        deviation = np.maximum(taught.std(0), SMALLEST_DEVIATION)
        return Statistics(
            proprio_mean=tuple(round(float(value), 6) for value in taught.mean(0)),
            proprio_deviation=tuple(round(float(value), 6) for value in deviation),
        )


def read_dataset(folders: Sequence[Path], cache: Path) -> Dataset:
    """Read all rows of `folders`, decoding what frames `cache` lacks.

    Raises `BadOption`, also for a sentence that is reserved for scoring.
    """
    read = [read_demonstrations(folder) for folder in folders]
    for one in read:
        for text in filter(is_reserved, one.sentences):
            raise BadOption(f"{one.folder} teaches a sentence that LIBERO-Pro scores: {text!r}")
    sentences = sorted({text for one in read for text in one.sentences})
    lessons = sorted({episode.lesson for one in read for episode in one.episodes})
    parts: list[dict[str, NDArray[Any]]] = []
    rows = 0
    for one in read:
        tasks = np.array([sentences.index(text) for text in one.sentences])
        for episode in one.episodes:
            columns = episode.columns()
            if not np.isin(columns["task_index"], np.arange(len(tasks))).all():
                raise BadOption(f"{episode.data} names a task_index that meta/tasks.parquet lacks")
            part = _numbers(columns, tasks, rows_before=rows)
            part["lesson"] = np.full(episode.rows, lessons.index(episode.lesson))
            part["held_out"] = np.full(episode.rows, is_held_out(one.seed, episode))
            parts.append(part)
            rows += episode.rows
    if not parts:
        raise BadOption(f"no episodes in {', '.join(str(folder) for folder in folders)}")
    return Dataset(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        frames=Frames(cached_frames(one, cache) for one in read),
        sentences=tuple(sentences),
        lessons=tuple(lessons),
        sources=tuple(_source(one) for one in read),
    )


def is_held_out(seed: str, episode: Episode) -> bool:
    """Tell whether an episode of a folder that was made with `seed` judges and does not teach.

    That follows from what the episode follows from, and from nothing else: no training learns from
    what another one is judged by, whatever folders the two read. So a small folder may hold out
    nothing at all.
    """
    name = f"{seed}/{episode.lesson}/{episode.within}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") % HELD_OUT_OF == 0


def _numbers(
    columns: dict[str, NDArray[Any]], tasks: NDArray[np.int64], *, rows_before: int
) -> dict[str, NDArray[Any]]:
    """Return an episode's rows as `Dataset` holds them."""
    state = columns["observation.state"]
    rows = len(state)
    after = np.arange(rows) + ROWS_TO_THE_FUTURE
    done = columns["executed_action"]
    following = np.concatenate([done[1:], np.zeros((1, EXECUTED_STEPS, 7), np.float32)])
    return {
        "proprio": np.stack([_proprio(row) for row in state]),
        "sentence": tasks[columns["task_index"]],
        "actions": columns["action"],
        "executed": np.concatenate([done, following], 1),
        "places": np.concatenate([columns["thing_position"], columns["goal_position"]], 1),
        "progress": columns["progress"],
        "future": np.where(after < rows, after + rows_before, -1),
        "student_acts": columns["student_acts"],
    }


def _proprio(state: NDArray[np.float32]) -> NDArray[np.float32]:
    return join_proprio(
        {
            "eef_position": state[:3],
            "eef_quaternion_xyzw": state[3:7],
            "gripper_qpos": state[7:],
        }
    )


def _source(one: Demonstrations) -> Source:
    rows: Counter[str] = Counter()
    for episode in one.episodes:
        rows[episode.lesson] += episode.rows
    return Source(
        folder=one.folder.name,
        sha256=one.sha256,
        seed=one.seed,
        student=str(one.recipe.get("student", "")),
        episodes=len(one.episodes),
        rows=one.rows,
        rows_by_lesson=dict(sorted(rows.items())),
    )
