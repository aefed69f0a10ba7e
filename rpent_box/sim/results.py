# SPDX-License-Identifier: Apache-2.0
"""A run's folder and its `results.jsonl`: one JSON line per episode, on the disk before the next.

<output>/<UTC time>-<platform>-<suite>-<task>-<backend>/
  run.json          what ran, and everything needed to run it again (`sim/manifest.py`)
  results.jsonl     one row per finished episode
  episode-000/      actions.npy, episode.mp4, futures.npz from a model that foresees
  worker.log, simulator.log; simulator.1.log, … of those that replaced one that hung or died
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

import msgspec

from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.errors import OutputError

RESULTS_FILE = "results.jsonl"


class EpisodeRow(EpisodePlayed, frozen=True, kw_only=True, tag=False):
    """One line of `results.jsonl`: how an episode went, and which run it belongs to."""

    run: str
    """The run folder's name."""
    finished_at: str
    """UTC, ISO 8601."""
    session: int = 0
    """Of an evaluation: which of its sittings played this, counted from 0; each resume is one."""
    simulator: str = ""
    """Of an evaluation: which of its simulators, e.g. `3`, or `node-1/3` where there are nodes."""


def row_of(played: EpisodePlayed, *, run: str) -> EpisodeRow:
    """Return the line that records `played`."""
    fields = msgspec.structs.asdict(played)
    return EpisodeRow(run=run, finished_at=utc_now().isoformat(timespec="seconds"), **fields)


def utc_now() -> datetime:
    """Return the time of day, for people; never used to measure."""
    return datetime.now(timezone.utc)


def create_run_folder(
    output_dir: str, *, platform: str, suite: str, task: int, backend: str
) -> Path:
    """Make and return a new folder under `output_dir`, named by UTC time and what is played.

    Raises `OutputError` when it cannot be made or written.
    """
    stamp = utc_now().strftime("%Y%m%dT%H%M%SZ")
    name = f"{stamp}-{platform}-{suite}-{task}-{backend}"
    parent = Path(output_dir).expanduser().absolute()
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if folder.is_dir():
                continue
            raise _cannot_write(folder, "a file stands in the way") from None
        except OSError as error:
            raise _cannot_write(parent, error.strerror or str(error)) from error
        return folder
    raise _cannot_write(parent, f"a thousand runs are called {name}")


def episode_folder(run_dir: Path, episode: int) -> Path:
    """Make and return the folder of one episode within `run_dir`. Raises `OutputError`."""
    folder = run_dir / episode_folder_name(episode)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _cannot_write(folder, error.strerror or str(error)) from error
    return folder


def episode_folder_name(episode: int) -> str:
    """Return the name of an episode's folder: `episode-007`."""
    return f"episode-{episode:03d}"


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the whole new one.

    Raises `OutputError`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _cannot_write(path, error.strerror or str(error)) from error


class ResultsWriter:
    """Appends rows to `results.jsonl`. One writer per run; a row is on the disk when it returns."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / RESULTS_FILE
        try:
            self._file = self.path.open("ab")
        except OSError as error:
            raise _cannot_write(self.path, error.strerror or str(error)) from error

    def __enter__(self) -> ResultsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def append(self, row: EpisodeRow) -> None:
        """Write one line and wait until the disk has it. Raises `OutputError`."""
        try:
            self._file.write(msgspec.json.encode(row) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _cannot_write(self.path, error.strerror or str(error)) from error

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()


def read_results(run_dir: Path) -> list[EpisodeRow]:
    """Return the rows of a run, in order. A torn last line, left by a killed writer, is dropped.

    Raises `OutputError` for a missing file or a line in the middle that cannot be read.
    """
    path = run_dir / RESULTS_FILE
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error
    # A whole line ends in a newline, so what follows the last one is torn or empty.
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            rows.append(msgspec.json.decode(line, type=EpisodeRow))
        except msgspec.DecodeError as error:
            raise OutputError(f"{path}, line {number}, is not an episode: {error}") from error
    return rows


def _cannot_write(path: Path, reason: str) -> OutputError:
    return OutputError(
        f"{path} cannot be written: {reason}",
        hint="Choose a folder that you may write with --output.",
    )
