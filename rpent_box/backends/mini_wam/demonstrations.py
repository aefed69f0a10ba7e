# SPDX-License-Identifier: Apache-2.0
"""Folders of demonstrations in LeRobot's layout v3.0, read a column at a time.

What the columns are is written in `rpent_box_libero/teaching/lerobot/layout.py`. Any folder of this
layout will do that has those of `COLUMNS`, the two cameras, and `rpent_box/lesson` among its
episodes' columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE, shrink
from rpent_box.errors import BadOption

VERSION = "v3.0"
VIDEO_KEYS = tuple(f"observation.images.{role}" for role in CAMERA_ROLES)
EXECUTED_STEPS = 5
"""Control steps from one row to the next."""
COLUMNS: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "observation.state": (np.float32, (9,)),
    "action": (np.float32, (10, 7)),
    "executed_action": (np.float32, (EXECUTED_STEPS, 7)),
    "progress": (np.float32, ()),
    "thing_position": (np.float32, (3,)),
    "goal_position": (np.float32, (3,)),
    "student_acts": (np.bool_, ()),
    "task_index": (np.int64, ()),
}
"""What is read of a data file: column → type, shape of one row's value."""
_HINT = "docs/training.md says what a folder of demonstrations must hold."


@dataclass(frozen=True, kw_only=True)
class Episode:
    """Where an episode's rows and frames lie."""

    number: int
    """Its `episode_index`."""
    lesson: str
    within: int
    """Which episode of its lesson it is in the recipe of its folder, whatever else is there."""
    rows: int
    data: Path
    videos: tuple[Path, ...]
    """By camera, in the order of `CAMERA_ROLES`."""
    first_frames: tuple[int, ...]
    """By camera: the number of the episode's first frame in its video."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return those of `COLUMNS` from the data file, a row per decision. Raises `BadOption`."""
        with _reading(self.data):
            names = parquet.read_schema(self.data).names
            if missing := [name for name in (*COLUMNS, "episode_index") if name not in names]:
                raise BadOption(f"{self.data} has no column {', '.join(missing)}", hint=_HINT)
            mine = [("episode_index", "=", self.number)]
            table = parquet.read_table(self.data, columns=list(COLUMNS), filters=mine)
        if table.num_rows != self.rows:
            raise BadOption(f"{self.data} has {table.num_rows} rows, its record says {self.rows}")
        return {name: self._column(table, name) for name in COLUMNS}

    def _column(self, table: pa.Table, name: str) -> NDArray[Any]:
        wanted, shape = COLUMNS[name]
        kind = table[name].type
        try:
            values = np.asarray(table[name].to_pylist())
        except ValueError:  # lists of unequal lengths
            values = np.empty(0, object)
        fits = values.shape == (self.rows, *shape) and np.can_cast(
            values.dtype, wanted, "same_kind"
        )
        if not fits or not np.isfinite(values).all():
            raise BadOption(
                f"column {name} of {self.data} is not finite {wanted.__name__} {[*shape]} in each "
                f"row: it holds {kind}, as {values.dtype} {[*values.shape[1:]]}",
                hint=_HINT,
            )
        return values.astype(wanted)

    def frames(self) -> NDArray[np.uint8]:
        """Return uint8 [rows, camera, 3, 128, 128], reduced as the adapter does it."""
        reduced = np.empty((self.rows, len(CAMERA_ROLES), 3, IMAGE_SIZE, IMAGE_SIZE), np.uint8)
        for camera, (role, path, first) in enumerate(
            zip(CAMERA_ROLES, self.videos, self.first_frames, strict=True)
        ):
            shown = 0
            with _reading(path):
                for number, frame in enumerate(_decoded(path)):
                    if first <= number < first + self.rows:
                        shrink(frame, role, out=reduced[number - first, camera])
                        shown += 1
            if shown < self.rows:
                raise BadOption(f"{path} ends after {shown} of {self.rows} frames of an episode")
        return reduced


@dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """One folder."""

    folder: Path
    sentences: tuple[str, ...]
    """By `task_index`."""
    episodes: tuple[Episode, ...]
    recipe: dict[str, Any]
    """`meta/rpent_box.json`: what the folder was made from; empty where there is none."""
    sha256: str
    """Of the records of what the folder holds, its numbers' statistics among them."""

    @property
    def seed(self) -> str:
        return str(self.recipe.get("seed", "not stated"))

    @property
    def rows(self) -> int:
        return sum(episode.rows for episode in self.episodes)


def read_demonstrations(folder: Path) -> Demonstrations:
    """Read what is known of a finished folder, none of its rows. Raises `BadOption`."""
    meta = folder / "meta"
    info_file, tasks_file, recipe_file = (
        meta / name for name in ("info.json", "tasks.parquet", "rpent_box.json")
    )
    for needed in (info_file, tasks_file):
        if not needed.exists():
            raise BadOption(
                f"{folder} holds no finished demonstrations: {needed} is missing",
                hint="Make some, or finish them: rpent-box mini generate",
            )
    with _reading(info_file):
        written = info_file.read_bytes()
        # First: another layout may lack what is read of this one.
        if (found := _version(written)) != VERSION:
            raise BadOption(f"{folder} is in LeRobot's layout {found}; wanted {VERSION}")
        info = msgspec.json.decode(written, type=_Info)
    recipe: dict[str, Any] = {}
    with _reading(recipe_file):
        if recipe_file.exists():
            recipe = msgspec.json.decode(recipe_file.read_bytes(), type=dict[str, Any])
        firsts = _first_numbers(recipe)
    with _reading(tasks_file):
        tasks = parquet.read_table(tasks_file).to_pylist()
        sentences = {int(task["task_index"]): str(task["task"]) for task in tasks}
        in_order = tuple(sentences[index] for index in range(len(sentences)))
    episodes: list[Episode] = []
    tables = sorted((meta / "episodes").glob("chunk-*/*.parquet"))
    for table in tables:
        with _reading(table):
            episodes += [_episode(folder, info, record, firsts) for record in _records(table)]
    return Demonstrations(
        folder=folder,
        sentences=in_order,
        episodes=tuple(episodes),
        recipe=recipe,
        sha256=_sha256([info_file, tasks_file, *tables]),
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be used, and why. Raises `BadOption`."""
    try:
        yield
    except KeyError as error:
        raise BadOption(f"{path} has no {error}", hint=_HINT) from error
    except (
        OSError,
        ValueError,
        TypeError,
        msgspec.DecodeError,
        pa.ArrowException,
        av.FFmpegError,
    ) as error:
        raise BadOption(f"{path} cannot be read: {error}", hint=_HINT) from error


class _Info(Struct, frozen=True):
    """What is read of `meta/info.json`."""

    fps: float
    data_path: str
    video_path: str


def _version(info: bytes) -> str:
    known = msgspec.json.decode(info, type=dict[str, Any])
    return str(known.get("codebase_version", "not stated"))


def _first_numbers(recipe: dict[str, Any]) -> dict[str, int]:
    """Return for each lesson of a recipe the number of its first episode."""
    first, firsts = 0, {}
    for share in recipe.get("lessons", ()):
        firsts[str(share["name"])] = first
        first += int(share["episodes"])
    return firsts


def _records(path: Path) -> list[dict[str, Any]]:
    names = [name for name in parquet.read_schema(path).names if not name.startswith("stats/")]
    records: list[dict[str, Any]] = parquet.read_table(path, columns=names).to_pylist()
    return records


def _episode(folder: Path, info: _Info, record: dict[str, Any], firsts: dict[str, int]) -> Episode:
    def path(template: str, key: str) -> Path:
        return folder / template.format(
            chunk_index=record[f"{key}/chunk_index"],
            file_index=record[f"{key}/file_index"],
            video_key=key.removeprefix("videos/"),
        )

    videos = [f"videos/{key}" for key in VIDEO_KEYS]
    lesson = str(record["rpent_box/lesson"])
    number, rows = int(record["episode_index"]), int(record["length"])
    if rows < 1:
        raise ValueError(f"episode {number} has {rows} rows")
    return Episode(
        number=number,
        lesson=lesson,
        within=int(record.get("rpent_box/number", number)) - firsts.get(lesson, 0),
        rows=rows,
        data=path(info.data_path, "data"),
        videos=tuple(path(info.video_path, key) for key in videos),
        first_frames=tuple(round(record[f"{key}/from_timestamp"] * info.fps) for key in videos),
    )


def _decoded(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Give a video's frames, uint8 RGB [height, width, 3]."""
    with av.open(str(path)) as file:
        for frame in file.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


def _sha256(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()
