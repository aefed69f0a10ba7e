# SPDX-License-Identifier: Apache-2.0
"""`rpent-box build`: make images, or environments where there are no containers."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rpent_box.cli import flags
from rpent_box.cli.border import border, print_json
from rpent_box.cli.products import Product, find_targets, make_products
from rpent_box.cli.progress import speaker
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.recipe import Variant


def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Backends and platforms.", metavar="NAME...", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything that there is a recipe for.")
    ] = False,
    variant: Annotated[
        Variant,
        typer.Option(
            help="Another variant of it: cpu computes without a GPU.",
            metavar="cpu",
            show_default="the default one",
        ),
    ] = "",
    base: Annotated[
        str | None,
        typer.Option(
            help="Base of each image that is built.",
            metavar="IMAGE",
            show_default="the recipe's own, or one made here",
        ),
    ] = None,
    skip_golden: Annotated[
        bool,
        typer.Option(
            "--skip-golden",
            help="Do not compare a simulator with what is recorded of it: where this machine "
            "cannot run it. Its image says that it was skipped.",
        ),
    ] = False,
    launcher: flags.Launcher = "auto",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Build images, or Python environments for the process launcher. What is built is kept."""
    with border(verbose=verbose, as_json=as_json):
        say = speaker(quiet=quiet)
        targets = find_targets(names or [], everything=everything, variant=variant)
        chosen, why = choose_launcher(launcher)
        say(f"launcher: {chosen.name} ({why})")
        products = make_products(
            targets,
            chosen.name,
            base=base,
            say=say,
            environ=os.environ,
            golden=not skip_golden,
        )
        if as_json:
            print_json({"built": products})
        else:
            sys.stdout.write("".join(_line(product) for product in products))


def _line(product: Product) -> str:
    variant = f" ({product.variant})" if product.variant else ""
    return f"{product.kind} {product.name}{variant}: {product.image or product.python}\n"
