# SPDX-License-Identifier: Apache-2.0
"""The command `rpent-box`."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code (0 done, 1 not completed, 2 wrong usage)."""
    try:
        return _run()
    except KeyboardInterrupt:
        # While the program itself was still being imported: nothing has been started.
        sys.stderr.write("stopped\n")
        return INTERRUPTED


def _run() -> int:
    try:
        from rpent_box.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich"}:
            raise
        sys.stderr.write(
            f"error: the rpent-box command needs the package {error.name}, which is not here\n"
            "next:  pip install 'rpent-box[host]'\n"
        )
        return 1
    app(prog_name="rpent-box")
    return 0


if __name__ == "__main__":
    sys.exit(main())
