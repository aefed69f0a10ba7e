# SPDX-License-Identifier: Apache-2.0
"""A backend's own options as text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rpent_box.options import add_options
from rpent_box.worker.backend import BackendSpec


def render_backend_options(spec: BackendSpec) -> str:
    """Return the options of `spec`'s worker, with descriptions and defaults, and what it needs."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    add_options(parser.add_argument_group(f"{spec.name}'s own options"), spec.options)
    facts = [
        f"{spec.name}: {spec.summary}",
        f"platforms: {', '.join(spec.platforms)}",
        f"needs: {', '.join(_needs(spec)) or 'nothing more'}",
        *([f"licence: {spec.licence}"] if spec.licence else []),
        *(
            f"{variable} stands in for --{option}"
            for variable, option in spec.env_fallbacks.items()
        ),
    ]
    return "\n".join(facts) + "\n\n" + parser.format_help()


def _needs(spec: BackendSpec) -> Iterator[str]:
    if spec.needs_checkpoint:
        yield "a checkpoint" if spec.checkpoint_is == "path" else "the name of a checkpoint"
    if spec.needs_gpu:
        yield "a GPU, or --device cpu" if "cpu" in spec.variants else "a GPU"
    if spec.memory:
        yield spec.memory
    if spec.borrows:
        yield f"or a running service: --{spec.borrows.replace('_', '-')}"
