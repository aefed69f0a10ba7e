# SPDX-License-Identifier: Apache-2.0
"""`rpent-box gc`: remove what killed runs left behind."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rpent_box.cli import flags
from rpent_box.cli.border import NOT_COMPLETED, border, print_json
from rpent_box.cli.surroundings import runtime_dir
from rpent_box.launch.sweep import SweepReport, sweep


def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only say what would be removed.")
    ] = False,
    as_json: flags.AsJson = False,
    verbose: flags.Verbose = False,
) -> None:
    """Remove boxes whose owner is dead: their containers, processes, sockets and shared memory.

    Living boxes and other users' are never touched. Every run does this at its start, for boxes
    alone; this also looks for containers without a box.
    """
    with border(verbose=verbose, as_json=as_json):
        report = sweep(runtime_dir(os.environ), containers=True, dry_run=dry_run)
        if as_json:
            print_json(report)
        else:
            sys.stdout.write(render_report(report, dry_run=dry_run))
        if report.left:
            raise typer.Exit(NOT_COMPLETED)


def render_report(report: SweepReport, *, dry_run: bool = False) -> str:
    """Return what was removed, or would be, a line each."""
    removed, ended = ("would remove", "would end") if dry_run else ("removed", "ended")
    lines = [f"{removed} box {box}" for box in report.boxes]
    lines += [f"{ended} {program}" for program in report.programs]
    lines += [f"{removed} shared memory {segment}" for segment in report.segments]
    lines += [f"could not remove {thing}" for thing in report.left]
    if not lines:
        lines.append("nothing was left behind")
    if report.living:
        lines.append(f"in use and untouched: {', '.join(f'box {box}' for box in report.living)}")
    return "\n".join(lines) + "\n"
