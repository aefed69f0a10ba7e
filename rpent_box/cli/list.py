# SPDX-License-Identifier: Apache-2.0
"""`rpent-box list`: what is installed, and what fits what."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rpent_box.cli import flags
from rpent_box.cli.border import border, print_json
from rpent_box.cli.catalogue import read_catalogue
from rpent_box.cli.prepared import look_once
from rpent_box.cli.show_catalogue import render_catalogue


def list_(
    platform: Annotated[
        str | None,
        typer.Option(
            help="Only this platform, with its tasks.", metavar="NAME", show_default=False
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="Only this suite, with its tasks.", metavar="NAME", show_default=False),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(
            help="Only what acts or moves in this action space.", metavar="ID", show_default=False
        ),
    ] = None,
    as_json: flags.AsJson = False,
    verbose: flags.Verbose = False,
) -> None:
    """List backends, platforms, suites and tasks, and which fit which. Needs no simulator."""
    with border(verbose=verbose, as_json=as_json):
        catalogue = read_catalogue(look_once(), platform=platform, suite=suite, space=space)
        if as_json:
            print_json(catalogue)
            return
        in_detail = platform is not None or suite is not None
        sys.stdout.write(render_catalogue(catalogue, in_detail=in_detail))
