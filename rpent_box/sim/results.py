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
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

import msgspec

from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.sim.lines import LineWriter, cannot_write, read_lines, sync_folder

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


def row_of(played: EpisodePlayed, *, run: str, session: int = 0, simulator: str = "") -> EpisodeRow:
    """Return the line that records `played`."""
    fields = msgspec.structs.asdict(played)
    return EpisodeRow(run=run, finished_at=now(), session=session, simulator=simulator, **fields)


def now() -> str:
    """Return the time of day in UTC, as it is written down: ISO 8601, to the second."""
    return utc_now().isoformat(timespec="seconds")


def utc_now() -> datetime:
    """Return the time of day, for people; never used to measure."""
    return datetime.now(timezone.utc)


def create_run_folder(
    output_dir: str, *, platform: str, suite: str, task: int, backend: str
) -> Path:
    """Make and return a new folder under `output_dir`, named by UTC time and what is played.

    Raises `OutputError` when it cannot be made or written.
    """
    return create_folder(output_dir, f"{platform}-{suite}-{task}-{backend}")


def is_utf8(name: str) -> bool:
    """Tell whether `name`, from the system, is text: other bytes are kept in it as surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def create_folder(output_dir: str, what: str) -> Path:
    """Make and return a new folder under `output_dir`, called `<UTC time>-<what>`.

    Raises `OutputError` when it cannot be made or written.
    """
    name = f"{utc_now().strftime('%Y%m%dT%H%M%SZ')}-{what}"
    parent = Path(output_dir).expanduser().absolute()
    if not is_utf8(str(parent)):
        # A manifest names it, and is UTF-8.
        raise cannot_write(parent, "its name is not UTF-8")
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            sync_folder(parent)
        except FileExistsError:
            if folder.is_dir():
                continue
            raise cannot_write(folder, "a file stands in the way") from None
        except OSError as error:
            raise cannot_write(parent, error) from error
        return folder
    raise cannot_write(parent, f"a thousand runs are called {name}")


def episode_folder(run_dir: Path, episode: int) -> Path:
    """Make and return the folder of one episode within `run_dir`. Raises `OutputError`."""
    folder = run_dir / episode_folder_name(episode)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def episode_folder_name(episode: int) -> str:
    """Return the name of an episode's folder: `episode-007`."""
    return f"episode-{episode:03d}"


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the whole new one.

    A file that was not there before is there for good. Raises `OutputError`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        is_new = not path.exists()
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        if is_new:
            sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


def remove_partials(folder: Path) -> None:
    """Remove what was left in `folder` by those who were killed in `write_atomically`.

    Only where nobody else writes. Raises `OutputError`.
    """
    try:
        for partial in folder.glob(".*.partial"):
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


class ResultsWriter:
    """Appends rows to `results.jsonl`. One writer per run; a row is on the disk when it returns."""

    def __init__(self, run_dir: Path) -> None:
        """Open the file, and cut what a killed writer left of its last row."""
        self.path = run_dir / RESULTS_FILE
        self._lines = LineWriter(self.path)

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
        """Write one line and wait until the disk has it.

        Raises `OutputError`: then the row does not count, and the file is as it was before.
        """
        self._lines.append(row)

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._lines.close()


def read_results(run_dir: Path) -> list[EpisodeRow]:
    """Return the rows of a run, in order. A torn last line, left by a killed writer, is dropped.

    Raises `OutputError` for a missing file or a line in the middle that cannot be read.
    """
    return read_lines(run_dir / RESULTS_FILE, EpisodeRow, what="an episode")
