# SPDX-License-Identifier: Apache-2.0
"""Frames of demonstrations, decoded once: a file on the disk that training reads at random."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE
from rpent_box.backends.mini_wam.demonstrations import Demonstrations

FRAME_SHAPE = (len(CAMERA_ROLES), 3, IMAGE_SIZE, IMAGE_SIZE)


def cached_frames(demonstrations: Demonstrations, cache: Path) -> NDArray[np.uint8]:
    """Return uint8 [rows, camera, 3, 128, 128] of a folder, mapped from a file in `cache`.

    The file is named after the folder's content and is written whole or not at all: 98 KB a row.
    """
    path = cache / f"frames-{demonstrations.sha256[:16]}.npy"
    if not path.exists():
        _decode(demonstrations, path)
    frames: NDArray[np.uint8] = np.load(path, mmap_mode="r")
    return frames


def _decode(demonstrations: Demonstrations, path: Path) -> None:
    part = path.with_suffix(".part")
    shape = (demonstrations.rows, *FRAME_SHAPE)
    frames = np.lib.format.open_memmap(part, "w+", np.uint8, shape)
    first = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        decoded = threads.map(lambda episode: episode.frames(), demonstrations.episodes)
        for number, shown in enumerate(decoded):
            frames[first : first + len(shown)] = shown
            first += len(shown)
            if number % 50 == 0:
                sys.stderr.write(f"{demonstrations.folder}: {first}/{len(frames)} rows decoded\n")
    frames.flush()
    part.replace(path)


class Frames:
    """The frames of several folders, one after the other."""

    def __init__(self, parts: Iterable[NDArray[np.uint8]]) -> None:
        self._parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in self._parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def take(self, rows: NDArray[np.int64], *, cameras: slice = slice(None)) -> NDArray[np.uint8]:
        """Return a copy of `rows`, uint8 [len(rows), camera, 3, 128, 128]."""
        wanted = len(range(*cameras.indices(FRAME_SHAPE[0])))
        taken = np.empty((len(rows), wanted, *FRAME_SHAPE[1:]), np.uint8)
        parts = np.searchsorted(self._ends, rows, side="right")
        for place, (row, part) in enumerate(zip(rows, parts, strict=True)):
            begin = self._ends[part] - len(self._parts[part])
            taken[place] = self._parts[part][row - begin, cameras]
        return taken
