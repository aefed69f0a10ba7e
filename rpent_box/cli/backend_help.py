# SPDX-License-Identifier: Apache-2.0
"""A backend's own options as text."""

from __future__ import annotations

import argparse

from rpent_box.options import add_options
from rpent_box.worker.backend import BackendSpec


def render_backend_options(spec: BackendSpec) -> str:
    """Return the options of `spec`'s worker, with descriptions and defaults, and what it needs."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    add_options(parser.add_argument_group(f"{spec.name}'s own options"), spec.options)
    needs = ["a checkpoint"] * spec.needs_checkpoint + ["a GPU"] * spec.needs_gpu
    needs += [spec.memory] * bool(spec.memory)
    facts = [
        f"{spec.name}: {spec.summary}",
        f"platforms: {', '.join(spec.platforms)}",
        f"needs: {', '.join(needs) or 'nothing more'}",
        *([f"licence: {spec.licence}"] if spec.licence else []),
        *(
            f"{variable} stands in for --{option}"
            for variable, option in spec.env_fallbacks.items()
        ),
    ]
    return "\n".join(facts) + "\n\n" + parser.format_help()
