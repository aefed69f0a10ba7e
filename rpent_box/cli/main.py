# SPDX-License-Identifier: Apache-2.0
"""The command `rpent-box`."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code (0 done, 1 not completed, 2 wrong usage)."""
    _open_closed_streams()
    try:
        return _run()
    except KeyboardInterrupt:
        # While the program itself was still being imported: nothing has been started.
        sys.stderr.write("stopped\n")
        return INTERRUPTED


def _open_closed_streams() -> None:
    """Give what was started with `>&-`, as some services are, somewhere to write to.

    Otherwise the next file that is opened, a lock or a log, would be its stdout.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


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
