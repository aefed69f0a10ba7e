# SPDX-License-Identifier: Apache-2.0
"""Demonstrations as training needs them: all shards in memory, frames reduced by the adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import (
    CAMERA_ROLES,
    PROPRIO_SCHEMA,
    join_proprio,
    shrink,
)
from rpent_box.backends.mini_wam.manifest import Statistics
from rpent_box.backends.mini_wam.text import encode_instruction
from rpent_box.errors import BadOption

HELD_OUT_EVERY = 17
"""Each 17th episode of a seed judges and does not teach."""
SMALLEST_DEVIATION = 0.01
"""A number that hardly moves would be blown up by dividing by its deviation."""


@dataclass(frozen=True)
class Dataset:
    """Rows of all shards, first axis the row."""

    images: NDArray[np.uint8]
    """[rows, camera, 128, 128, 3]"""
    proprio: NDArray[np.float32]
    """[rows, 9], not normalised."""
    instruction: NDArray[np.float32]
    """[rows, TEXT_FEATURES]"""
    actions: NDArray[np.float32]
    """[rows, 10, 7]"""
    places: NDArray[np.float32]
    """[rows, 6]: the thing's and the goal's position."""
    progress: NDArray[np.float32]
    next_row: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    student_acts: NDArray[np.bool_]
    headers: tuple[dict[str, Any], ...]

    @property
    def instructions(self) -> tuple[str, ...]:
        return tuple(sorted({str(header["instruction"]) for header in self.headers}))

    def statistics(self) -> Statistics:
        """Return mean and deviation of the proprio of the rows that teach."""
        taught = self.proprio[~self.held_out].astype(np.float64)
        deviation = np.maximum(taught.std(0), SMALLEST_DEVIATION)
        return Statistics(
            proprio_mean=tuple(round(float(value), 6) for value in taught.mean(0)),
            proprio_deviation=tuple(round(float(value), 6) for value in deviation),
        )


def read_dataset(folders: Sequence[Path]) -> Dataset:
    """Read all shards of `folders`, in order of their names. Raises `BadOption` for none."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.npz"))]
    if not paths:
        raise BadOption(
            f"no demonstrations (*.npz) in {', '.join(str(folder) for folder in folders)}",
            hint="Make some: python -m rpent_box_libero.teaching.demonstrate --out DIR",
        )
    parts: list[dict[str, NDArray[Any]]] = []
    headers: list[dict[str, Any]] = []
    rows = 0
    for path in paths:
        part, header = _read_shard(path, rows)
        rows += len(part["actions"])
        parts.append(part)
        headers.append(header)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Dataset(**columns, headers=tuple(headers))


def _read_shard(path: Path, rows_before: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    with np.load(path, allow_pickle=False) as shard:
        header: dict[str, Any] = json.loads(str(shard["header"]))
        rows = len(shard["actions"])
        frames = {role: shard[f"image_{role}"] for role in CAMERA_ROLES}
        measured = {name: shard[name] for name in PROPRIO_SCHEMA}
        following = shard["next_row"]
        text = encode_instruction(str(header["instruction"]))
        part: dict[str, NDArray[Any]] = {
            "images": np.stack(
                [[shrink(frames[role][row], role) for role in CAMERA_ROLES] for row in range(rows)]
            ),
            "proprio": np.stack(
                [
                    join_proprio({name: vectors[row] for name, vectors in measured.items()})
                    for row in range(rows)
                ]
            ),
            "instruction": np.repeat(text[None], rows, 0),
            "actions": shard["actions"],
            "places": np.concatenate([shard["thing_position"], shard["goal_position"]], 1),
            "progress": shard["progress"],
            "next_row": np.where(following >= 0, following + rows_before, -1),
            "student_acts": shard["student_acts"],
            "held_out": shard["episode"] % HELD_OUT_EVERY == HELD_OUT_EVERY - 1,
        }
    return part, header
