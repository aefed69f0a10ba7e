# SPDX-License-Identifier: Apache-2.0
"""`python native_start.py PARENT WORD…`: becomes the program WORD…, which dies with PARENT.

Run as a file and with nothing but the standard library: it is replaced by the program at once. It
exists because the same in a forked copy of a process with threads may hang.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> int:
    """Tie this process to its parent, give it a group of its own, and become the program."""
    parent, program = int(words[0]), words[1:]
    # A group and no session: a launcher that ends the worker's session finds this one in it.
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # It died before it could be tied to.
        return 1
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.stderr.write(f"{program[0]} cannot be started: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
