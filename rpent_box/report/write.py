# SPDX-License-Identifier: Apache-2.0
"""Reads folders of runs and writes what is asked for: the page, CSV, Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from rpent_box.errors import OutputError
from rpent_box.report.csv import to_csv
from rpent_box.report.load import Entry, load_entries
from rpent_box.report.media import DEFAULT_LIMIT_MB, EmbedVideos
from rpent_box.report.parquet import to_parquet
from rpent_box.sim.results import write_atomically

REPORT_FILE = "report.html"


class Written(Struct, frozen=True, kw_only=True):
    """What was read, and where what was written lies."""

    entries: tuple[Entry, ...]
    report: Path
    csv: Path | None = None
    parquet: Path | None = None


def write_report(
    folders: Sequence[str | Path],
    *,
    output: str | Path | None = None,
    csv: str | Path | None = None,
    parquet: str | Path | None = None,
    videos: EmbedVideos = "failures",
    limit_mb: float = DEFAULT_LIMIT_MB,
) -> Written:
    """Write the report of `folders`, each file whole or not at all.

    `output` None: `report.html` in the run's folder; of several, in the current one. Raises
    `BadOption` for folders that make no report, `OutputError` for files that cannot be read or
    written, and `LaunchError` where a package is missing.
    """
    from rpent_box.report.html import render_report

    entries = load_entries(folders)
    page = _absolute(output) if output else default_output(entries)
    texts = [(page, render_report(entries, page, videos=videos, limit_mb=limit_mb).encode())]
    texts += [(_absolute(csv), to_csv(entries))] if csv else []
    texts += [(_absolute(parquet), to_parquet(entries))] if parquet else []
    # All of them are made before the first is written: what is missing leaves nothing behind.
    for path, _ in texts:
        require_place(path)
    for path, data in texts:
        write_file(path, data)
    return Written(
        entries=tuple(entries),
        report=page,
        csv=_absolute(csv) if csv else None,
        parquet=_absolute(parquet) if parquet else None,
    )


def default_output(entries: Sequence[Entry]) -> Path:
    """Return where a report lies unless it is told otherwise."""
    folders = [folder for entry in entries for folder in entry.folders]
    return (folders[0].path if len(folders) == 1 else Path.cwd()) / REPORT_FILE


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all. Raises `OutputError`."""
    require_place(path)
    write_atomically(path, data)


def require_place(path: Path) -> None:
    """Raise `OutputError` where no file can be called `path`."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder", hint="Name the file to write in it.")
    if not path.parent.is_dir():
        raise OutputError(
            f"there is no folder {path.parent}", hint="Make it, or name another file."
        )


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()
