# SPDX-License-Identifier: Apache-2.0
"""Folders of demonstrations in LeRobot's layout v3.0, read a column at a time.

What the columns are is written in `rpent_box_libero/teaching/lerobot/layout.py`. Any folder of this
layout will do that has them, the two cameras, and `rpent_box/lesson` among its episodes' columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE, shrink
from rpent_box.errors import BadOption

VERSION = "v3.0"
VIDEO_KEYS = tuple(f"observation.images.{role}" for role in CAMERA_ROLES)
EXECUTED_STEPS = 5
"""Control steps from one row to the next."""


@dataclass(frozen=True, kw_only=True)
class Episode:
    """Where an episode's rows and frames lie."""

    number: int
    lesson: str
    rows: int
    data: Path
    videos: tuple[Path, ...]
    """By camera, in the order of `CAMERA_ROLES`."""
    first_frames: tuple[int, ...]
    """By camera: the number of the episode's first frame in its video."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the data file, a row per decision. Raises `BadOption`."""
        table = parquet.read_table(self.data, filters=[("episode_index", "=", self.number)])
        if table.num_rows != self.rows:
            raise BadOption(f"{self.data} has {table.num_rows} rows, its record says {self.rows}")
        return {name: np.asarray(table[name].to_pylist()) for name in table.column_names}

    def frames(self) -> NDArray[np.uint8]:
        """Return uint8 [rows, camera, 3, 128, 128], reduced as the adapter does it."""
        reduced = np.empty((self.rows, len(CAMERA_ROLES), 3, IMAGE_SIZE, IMAGE_SIZE), np.uint8)
        for camera, (role, path, first) in enumerate(
            zip(CAMERA_ROLES, self.videos, self.first_frames, strict=True)
        ):
            shown = 0
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
    def rows(self) -> int:
        return sum(episode.rows for episode in self.episodes)


def read_demonstrations(folder: Path) -> Demonstrations:
    """Read what is known of a finished folder, none of its rows. Raises `BadOption`."""
    meta = folder / "meta"
    try:
        info = json.loads((meta / "info.json").read_text())
        tables = sorted((meta / "episodes").glob("chunk-*/*.parquet"))
        records = [row for path in tables for row in _records(path)]
        tasks = parquet.read_table(meta / "tasks.parquet").to_pylist()
    except FileNotFoundError as error:
        raise BadOption(
            f"{folder} holds no finished demonstrations: {error}",
            hint="Make some, or finish them: rpent-box mini generate",
        ) from error
    if info.get("codebase_version") != VERSION:
        raise BadOption(
            f"{folder} is in LeRobot's layout {info.get('codebase_version')}; wanted {VERSION}"
        )
    recipe_file = meta / "rpent_box.json"
    recipe: dict[str, Any] = json.loads(recipe_file.read_text()) if recipe_file.exists() else {}
    sentences = {int(task["task_index"]): str(task["task"]) for task in tasks}
    return Demonstrations(
        folder=folder,
        sentences=tuple(sentences[index] for index in range(len(sentences))),
        episodes=tuple(_episode(folder, info, record) for record in records),
        recipe=recipe,
        sha256=_sha256([meta / "info.json", meta / "tasks.parquet", *tables]),
    )


def _records(path: Path) -> list[dict[str, Any]]:
    names = [name for name in parquet.read_schema(path).names if not name.startswith("stats/")]
    records: list[dict[str, Any]] = parquet.read_table(path, columns=names).to_pylist()
    return records


def _episode(folder: Path, info: dict[str, Any], record: dict[str, Any]) -> Episode:
    def path(template: str, key: str) -> Path:
        return folder / template.format(
            chunk_index=record[f"{key}/chunk_index"],
            file_index=record[f"{key}/file_index"],
            video_key=key.removeprefix("videos/"),
        )

    videos = [f"videos/{key}" for key in VIDEO_KEYS]
    return Episode(
        number=int(record["episode_index"]),
        lesson=str(record["rpent_box/lesson"]),
        rows=int(record["length"]),
        data=path(info["data_path"], "data"),
        videos=tuple(path(info["video_path"], key) for key in videos),
        first_frames=tuple(
            round(record[f"{key}/from_timestamp"] * float(info["fps"])) for key in videos
        ),
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
