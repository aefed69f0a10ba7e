# SPDX-License-Identifier: Apache-2.0
"""`rpent-box version`."""

from __future__ import annotations

import json
import platform
import sys

from rpent_box.cli import flags
from rpent_box.version import PROTOCOL_VERSION, __version__


def version(as_json: flags.AsJson = False) -> None:
    """Print the version, the protocol that boxes speak, and the Python that runs this."""
    if as_json:
        facts = {
            "version": __version__,
            "protocol": PROTOCOL_VERSION,
            "python": platform.python_version(),
        }
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
        return
    sys.stdout.write(
        f"rpent-box {__version__} (protocol {PROTOCOL_VERSION}, "
        f"Python {platform.python_version()})\n"
    )
