# SPDX-License-Identifier: Apache-2.0
"""`rpent-box compare`: whether two results really differ, and what differed in their set-up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rpent_box.cli import flags
from rpent_box.cli.border import NOT_COMPLETED, border, print_json
from rpent_box.cli.show_report import render_comparison_text
from rpent_box.report.compare import compare as compare_entries
from rpent_box.report.load import load_pair
from rpent_box.report.write import write_file


def compare(
    a: Annotated[
        str,
        typer.Argument(help="Folder of a run or an evaluation.", metavar="A", show_default=False),
    ],
    b: Annotated[
        str,
        typer.Argument(help="Folder of another one.", metavar="B", show_default=False),
    ],
    html: Annotated[
        str | None,
        typer.Option(
            "--html",
            help="Write the comparison as a page to this file, too.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=flags.OUTPUT,
        ),
    ] = None,
    as_json: flags.AsJson = False,
    verbose: flags.Verbose = False,
) -> None:
    """Compare two runs or evaluations on the episodes that both have played.

    Says whether their success rates differ and by how much, how sure that is, how large a
    difference so many episodes could have shown, whether both saw the same scenes, and what
    differed in the set-up.
    """
    with border(verbose=verbose, as_json=as_json):
        comparison = compare_entries(*load_pair(a, b))
        if html is not None:
            from rpent_box.report.html import render_comparison

            write_file(Path(html).expanduser().absolute(), render_comparison(comparison).encode())
        if as_json:
            print_json(comparison)
        else:
            sys.stdout.write(render_comparison_text(comparison))
        if not comparison.total.pairs:
            raise typer.Exit(NOT_COMPLETED)
