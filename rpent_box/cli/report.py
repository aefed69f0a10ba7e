# SPDX-License-Identifier: Apache-2.0
"""`rpent-box report`: what runs and evaluations came to, as a page to look at and to hand on."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from msgspec import Struct

from rpent_box.cli import flags
from rpent_box.cli.border import border, print_json
from rpent_box.cli.show_report import render_written
from rpent_box.report.compare import Comparison, compare
from rpent_box.report.figures import EntryFigures, figures_of
from rpent_box.report.load import Entry
from rpent_box.report.media import DEFAULT_LIMIT_MB, EmbedVideos
from rpent_box.report.setup import Setup
from rpent_box.report.write import Written, write_report


class Result(Struct, frozen=True, kw_only=True):
    """One result, as `--json` prints it."""

    folders: tuple[str, ...]
    """Absolute paths."""
    figures: EntryFigures
    setup: Setup


class Report(Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    report: str
    csv: str | None
    parquet: str | None
    results: tuple[Result, ...]
    comparison: Comparison | None
    """Of two results."""


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of runs or evaluations, finished or not.",
            metavar="RUN...",
            show_default=False,
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the page to this file.",
            metavar="FILE",
            show_default="report.html in RUN; of several, in the current folder",
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option(
            "--csv",
            help="Write one line per episode to this file, too.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    parquet: Annotated[
        str | None,
        typer.Option(
            "--parquet",
            help="Write one row per episode to this file, too.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    embed_videos: Annotated[
        EmbedVideos,
        typer.Option(
            "--embed-videos",
            help="Which videos to put into the page; the others are links.",
            metavar="all|failures|none",
            rich_help_panel=flags.OUTPUT,
        ),
    ] = "failures",
    embed_limit: Annotated[
        float,
        typer.Option(
            "--embed-limit",
            help="How much of pictures and videos to put into the page; what is above it is a "
            "link.",
            metavar="MB",
            min=0,
            rich_help_panel=flags.OUTPUT,
        ),
    ] = DEFAULT_LIMIT_MB,
    as_json: flags.AsJson = False,
    verbose: flags.Verbose = False,
) -> None:
    """Write a report of runs and evaluations: one HTML file that needs nothing else.

    Folders with the same set-up and other episodes are put together as one result. Two results
    are compared, episode by episode.
    """
    with border(verbose=verbose, as_json=as_json):
        written = write_report(
            runs,
            output=output,
            csv=csv,
            parquet=parquet,
            videos=embed_videos,
            limit_mb=embed_limit,
        )
        if as_json:
            print_json(_as_report(written))
        else:
            sys.stdout.write(render_written(written))


def _as_report(written: Written) -> Report:
    entries = written.entries
    return Report(
        report=str(written.report),
        csv=str(written.csv) if written.csv else None,
        parquet=str(written.parquet) if written.parquet else None,
        results=tuple(map(_as_result, entries)),
        comparison=compare(*entries) if len(entries) == 2 else None,
    )


def _as_result(entry: Entry) -> Result:
    return Result(
        folders=tuple(str(folder.path) for folder in entry.folders),
        figures=figures_of(entry),
        setup=entry.setup,
    )
