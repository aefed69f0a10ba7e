# SPDX-License-Identifier: Apache-2.0
"""Frames of demonstrations, decoded once: a file on the disk that training reads at random."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, IMAGE_SIZE
from rpent_box.backends.mini_wam.demonstrations import Demonstrations
from rpent_box.errors import BadOption, OutputError
from rpent_box.sim.lines import sync_folder

FRAME_SHAPE = (len(CAMERA_ROLES), 3, IMAGE_SIZE, IMAGE_SIZE)
PART = ".part"
"""Ends the names of files that are being written."""


def cached_frames(demonstrations: Demonstrations, cache: Path) -> NDArray[np.uint8]:
    """Return uint8 [rows, camera, 3, 128, 128] of a folder, mapped from a file in `cache`.

    The file is named after the folder's content and is written whole or not at all: 98 KB a row.
    Several trainings may share `cache`; where two decode at once, the later one's file stays.
    Raises `BadOption` and `OutputError`.
    """
    path = cache / f"frames-{demonstrations.sha256[:16]}.npy"
    shape = (demonstrations.rows, *FRAME_SHAPE)
    if not path.exists():
        with _written_whole(path) as part:
            _decode(demonstrations, part, shape)
    try:
        frames: NDArray[np.uint8] = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise _no_frames(path, str(error)) from error
    if frames.shape != shape or frames.dtype != np.uint8:
        raise _no_frames(path, f"{frames.dtype} {[*frames.shape]}, not uint8 {[*shape]}")
    return frames


def _no_frames(path: Path, why: str) -> BadOption:
    hint = "Remove that file: it is made again."
    return BadOption(f"{path} does not hold the decoded frames: {why}", hint=hint)


@contextmanager
def _written_whole(path: Path) -> Iterator[Path]:
    """Yield the name of a new file beside `path`, which becomes `path` once the disk has it.

    Nobody else writes to it. Whoever writes holds a lock on the file, which ends with the process:
    so what was left by killed ones is told from what is being written, and is removed here. Raises
    `OutputError`.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
    try:
        _remove_abandoned(path.parent)
        descriptor = _create_held(part)
        try:
            yield part
            os.fsync(descriptor)
            part.replace(path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)
            os.close(descriptor)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="Make room, or choose another --cache.",
        ) from error


def _create_held(part: Path) -> int:
    """Make a file and lock it; return its descriptor."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # it was taken for an abandoned one before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Remove the files of `_written_whole` that nobody holds any more."""
    for part in folder.glob(f".*{PART}"):
        with suppress(FileNotFoundError, BlockingIOError), part.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _decode(demonstrations: Demonstrations, part: Path, shape: tuple[int, ...]) -> None:
    frames = np.lib.format.open_memmap(part, "w+", np.uint8, shape)
    with part.open("r+b") as file:
        # Else a full disk is found by writing to memory, and that kills.
        os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    first = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        decoded = threads.map(lambda episode: episode.frames(), demonstrations.episodes)
        for number, shown in enumerate(decoded):
            frames[first : first + len(shown)] = shown
            first += len(shown)
            if number % 50 == 0:
                sys.stderr.write(f"{demonstrations.folder}: {first}/{len(frames)} rows decoded\n")
    frames.flush()


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
