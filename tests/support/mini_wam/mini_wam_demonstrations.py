# SPDX-License-Identifier: Apache-2.0
"""A small folder of pretended demonstrations in LeRobot's layout v3.0. Needs pyarrow and PyAV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

FPS = 4
SIDE = 256
ROLES = ("primary", "wrist")
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"


@dataclass(frozen=True)
class Pretended:
    """One episode."""

    lesson: str
    sentence: str
    rows: int = 6
    student_acts: bool = False
    within: int | None = None
    """Its number in the recipe; None: that in the folder."""


def write_folder(folder: Path, episodes: Sequence[Pretended], *, seed: int = 0) -> Path:
    """Write a finished folder, an episode per file; frames are plain, each of another grey."""
    sentences = sorted({episode.sentence for episode in episodes})
    for number, episode in enumerate(episodes):
        _write_data(folder, number, episode, sentences.index(episode.sentence), seed)
        for role in ROLES:
            path = folder / VIDEO_PATH.format(
                video_key=f"observation.images.{role}", chunk_index=0, file_index=number
            )
            write_video(path, frames_of(number, episode.rows, role))
    _write_meta(folder, episodes, sentences, seed)
    return folder


def frames_of(number: int, rows: int, role: str) -> list[NDArray[np.uint8]]:
    """Return the frames of an episode's camera: a grey that tells row, episode and camera."""
    start = 40 + 10 * number + (100 if role == "wrist" else 0)
    return [np.full((SIDE, SIDE, 3), (start + 3 * row) % 256, np.uint8) for row in range(rows)]


def write_video(path: Path, frames: Sequence[NDArray[np.uint8]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("libx264", rate=FPS, options={"crf": "8", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = SIDE, SIDE, "yuv420p"
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def _write_data(folder: Path, number: int, episode: Pretended, task: int, seed: int) -> None:
    rng = np.random.default_rng([seed, number])
    rows = episode.rows

    def normal(*shape: int) -> NDArray[np.float32]:
        return np.clip(rng.normal(size=(rows, *shape)), -1, 1).astype(np.float32)

    executed = normal(5, 7)
    executed[-1] = 0
    path = folder / DATA_PATH.format(chunk_index=0, file_index=number)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "observation.state": normal(9).tolist(),
        "action": normal(10, 7).tolist(),
        "executed_action": executed.tolist(),
        "progress": rng.random(rows, np.float32).tolist(),
        "thing_position": normal(3).tolist(),
        "goal_position": normal(3).tolist(),
        "student_acts": [episode.student_acts] * rows,
        "episode_index": [number] * rows,
        "task_index": [task] * rows,
    }
    parquet.write_table(pa.table(columns), path)


def _write_meta(
    folder: Path, episodes: Sequence[Pretended], sentences: Sequence[str], seed: int
) -> None:
    meta = folder / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    places = {"chunk_index": 0, "from_timestamp": 0.0}
    records = [
        {
            "episode_index": number,
            "length": episode.rows,
            "data/chunk_index": 0,
            "data/file_index": number,
            **{
                f"videos/observation.images.{role}/{name}": value
                for role in ROLES
                for name, value in {**places, "file_index": number}.items()
            },
            "rpent_box/number": number if episode.within is None else episode.within,
            "rpent_box/lesson": episode.lesson,
            "stats/seed": [seed],
        }
        for number, episode in enumerate(episodes)
    ]
    parquet.write_table(
        pa.Table.from_pylist(records), meta / "episodes" / "chunk-000" / "file-000.parquet"
    )
    tasks = [{"task_index": index, "task": text} for index, text in enumerate(sentences)]
    parquet.write_table(pa.Table.from_pylist(tasks), meta / "tasks.parquet")
    info = {
        "codebase_version": "v3.0",
        "fps": FPS,
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH,
    }
    (meta / "info.json").write_text(json.dumps(info))
    (meta / "rpent_box.json").write_text(json.dumps({"seed": seed, "student": ""}))
