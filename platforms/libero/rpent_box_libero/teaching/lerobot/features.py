# SPDX-License-Identifier: Apache-2.0
"""The columns of a data file, and how LeRobot describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rpent_box_libero.observation import CAMERA_ROLES
from rpent_box_libero.teaching.episode import CHUNK, SEGMENT, Episode
from rpent_box_libero.teaching.lerobot.layout import FPS, IMAGE_SIZE

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Column → array whose first axis is the row."""

Statistics: TypeAlias = dict[str, dict[str, Any]]
"""Column or camera → `min`, `max`, `mean`, `std`, `count` → nested lists."""

STATE = ("eef_position", "eef_quaternion_xyzw", "gripper_qpos")
STATE_NAMES = ("x", "y", "z", "qx", "qy", "qz", "qw", "finger_left", "finger_right")
ACTION_NAMES = ("dx", "dy", "dz", "rx", "ry", "rz", "gripper")
VIDEO_KEYS = {f"observation.images.{role}": role for role in CAMERA_ROLES.values()}
"""LeRobot's key → camera role."""

COLUMNS: dict[str, tuple[str, tuple[int, ...]]] = {
    "observation.state": ("float32", (9,)),
    "action": ("float32", (CHUNK, 7)),
    "executed_action": ("float32", (SEGMENT, 7)),
    "progress": ("float32", (1,)),
    "thing_position": ("float32", (3,)),
    "goal_position": ("float32", (3,)),
    "student_acts": ("bool", (1,)),
    "next.done": ("bool", (1,)),
    "timestamp": ("float32", (1,)),
    "frame_index": ("int64", (1,)),
    "episode_index": ("int64", (1,)),
    "index": ("int64", (1,)),
    "task_index": ("int64", (1,)),
}
"""Column → type and shape of one row's value; (1,) is stored as a plain value."""

NUMBERED_THROUGH = ("episode_index", "index", "task_index")
"""Columns that depend on all episodes, and so are right in a finished folder only."""

_NAMES: dict[str, list[str] | None] = {
    "observation.state": list(STATE_NAMES),
    "thing_position": ["x", "y", "z"],
    "goal_position": ["x", "y", "z"],
}


def columns_of(episode: Episode, number: int) -> dict[str, NDArray[Any]]:
    """Return the columns of an episode, those of the whole dataset preliminary."""
    rows = episode.rows
    count = len(rows)
    index = np.arange(count, dtype=np.int64)
    values = {
        "observation.state": [
            np.concatenate([row.observation.proprio[name] for name in STATE]) for row in rows
        ],
        "action": [row.label for row in rows],
        "executed_action": [row.executed for row in rows],
        "progress": [row.progress for row in rows],
        "thing_position": [row.thing for row in rows],
        "goal_position": [row.goal for row in rows],
        "student_acts": np.full(count, episode.student_acts),
        "next.done": index == count - 1,
        "timestamp": index / FPS,
        "frame_index": index,
        "episode_index": np.full(count, number),
        "index": index,
        "task_index": np.zeros(count),
    }
    return {name: np.asarray(values[name]).astype(COLUMNS[name][0]) for name in COLUMNS}


def table_of(columns: Columns) -> pa.Table:
    """Return `columns` as Arrow's table, each as LeRobot's reader wants it."""
    return pa.table({name: _array(columns[name]) for name in COLUMNS})


def _array(values: NDArray[Any]) -> pa.Array:
    flat = pa.array(values.reshape(-1))
    if values.ndim == 1:
        return flat
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    rows, steps, width = values.shape
    inner = pa.ListArray.from_arrays(np.arange(0, rows * steps + 1, dtype=np.int32) * width, flat)
    return pa.ListArray.from_arrays(np.arange(0, rows + 1, dtype=np.int32) * steps, inner)


def describe_features() -> dict[str, Any]:
    """Return `features` of meta/info.json."""
    features: dict[str, Any] = {key: _video() for key in VIDEO_KEYS}
    for name, (kind, shape) in COLUMNS.items():
        features[name] = {"dtype": kind, "shape": list(shape), "names": _NAMES.get(name)}
    for name in ("action", "executed_action"):
        steps = COLUMNS[name][1][0]
        features[name]["names"] = [[f"step_{step}" for step in range(steps)], list(ACTION_NAMES)]
    return features


def _video() -> dict[str, Any]:
    return {
        "dtype": "video",
        "shape": [IMAGE_SIZE, IMAGE_SIZE, 3],
        "names": ["height", "width", "channels"],
        "info": {
            "video.height": IMAGE_SIZE,
            "video.width": IMAGE_SIZE,
            "video.channels": 3,
            "video.codec": "h264",
            "video.pix_fmt": "yuv420p",
            "video.fps": FPS,
            "video.is_depth_map": False,
            "has_audio": False,
        },
    }


def statistics_of(
    columns: Columns, frames: Mapping[str, Sequence[NDArray[np.uint8]]]
) -> Statistics:
    """Return LeRobot's statistics of an episode's columns that do not depend on the others.

    They are over all but the last axis, e.g. [7] for `action`. Colours are between 0 and 1,
    [3, 1, 1], from every fourth row and column of the pixels.
    """
    statistics = {}
    for name, (_, shape) in COLUMNS.items():
        if name not in NUMBERED_THROUGH:
            statistics[name] = summarise(columns[name].reshape(-1, shape[-1]), len(columns[name]))
    for key, role in VIDEO_KEYS.items():
        pixels = np.stack([frame[::4, ::4] for frame in frames[role]]).reshape(-1, 3) / 255
        for kind, values in summarise(pixels, len(frames[role])).items():
            shaped = values if kind == "count" else [[[value]] for value in values]
            statistics.setdefault(key, {})[kind] = shaped
    return statistics


def summarise(values: NDArray[Any], rows: int) -> dict[str, Any]:
    """Return `min`, `max`, `mean`, `std` [n] of `values` [any, n], and `count` [1] of rows."""
    numbers = values.astype(np.float64)
    return {
        "min": numbers.min(0).tolist(),
        "max": numbers.max(0).tolist(),
        "mean": numbers.mean(0).tolist(),
        "std": numbers.std(0).tolist(),
        "count": [rows],
    }
