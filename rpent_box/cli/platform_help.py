# SPDX-License-Identifier: Apache-2.0
"""A platform's own options as text."""

from __future__ import annotations

import argparse

from rpent_box.options import add_options
from rpent_box.sim.platform import PlatformPlugin


def render_platform_options(plugin: PlatformPlugin) -> str:
    """Return the options of `plugin`'s simulator, with descriptions and defaults."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    group = parser.add_argument_group(f"{plugin.name}'s own options")
    add_options(group, plugin.options, prefix=f"{plugin.name}-")
    facts = [
        f"{plugin.name}: {plugin.summary}",
        *(
            f"{variable} stands in for --{plugin.name}-{field.replace('_', '-')}"
            for variable, field in plugin.env_fallbacks.items()
        ),
    ]
    return "\n".join(facts) + "\n\n" + parser.format_help()
