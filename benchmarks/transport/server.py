# SPDX-License-Identifier: Apache-2.0
"""The answering process: `python -m benchmarks.transport.server LINE WHERE`."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Serve one line; the first line of output is its address."""
    line, where = sys.argv[1:]
    importlib.import_module(f"benchmarks.transport.lines.{line}").serve(where)


if __name__ == "__main__":
    main()
