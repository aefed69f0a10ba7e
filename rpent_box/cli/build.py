# SPDX-License-Identifier: Apache-2.0
"""`rpent-box build`: make images, or environments where there are no containers."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
import typer

from rpent_box.cli import flags
from rpent_box.cli.border import border
from rpent_box.cli.products import Product, find_targets, make_products
from rpent_box.cli.progress import speaker
from rpent_box.launch.choose import choose_launcher


def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Backends and platforms.", metavar="NAME...", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything that there is a recipe for.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(help="Base of every image.", metavar="IMAGE", show_default="chosen by itself"),
    ] = None,
    launcher: flags.Launcher = "auto",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Build images, or Python environments for the process launcher. What is built is kept."""
    with border(verbose=verbose, as_json=as_json):
        say = speaker(quiet=quiet)
        targets = find_targets(names or [], everything=everything)
        chosen, why = choose_launcher(launcher)
        say(f"launcher: {chosen.name} ({why})")
        products = make_products(targets, chosen.name, base=base, say=say, environ=os.environ)
        if as_json:
            encoded = msgspec.json.format(msgspec.json.encode({"built": products}), indent=2)
            sys.stdout.write(encoded.decode() + "\n")
        else:
            sys.stdout.write("".join(_line(product) for product in products))


def _line(product: Product) -> str:
    return f"{product.kind} {product.name}: {product.image or product.python}\n"
