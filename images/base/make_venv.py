#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a virtual environment on a machine that may lack half of Python.

Debian and Ubuntu leave `venv` out of their Python: it is installed where we may, else the command
to type is printed. Standard library only, and old syntax, so that an old Python gets an answer too.
Of two commands that make one, the second waits; the mark `.made` says that it is whole.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys

OLDEST = (3, 10)


def main():
    # type: () -> int
    if sys.version_info < OLDEST:
        sys.stderr.write(
            f"error: this is Python {sys.version_info[0]}.{sys.version_info[1]}; "
            "rpent-box needs 3.10 or newer\n"
            "next:  make run PYTHON=python3.11\n"
        )
        return 1
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        if not install(package):
            sys.stderr.write(
                "error: this Python cannot make virtual environments\n"
                f"next:  sudo apt-get install {package}\n"
            )
            return 1
    return make(sys.argv[1])


def make(folder):
    # type: (str) -> int
    """Make it unless it is whole already; go on where somebody was interrupted."""
    os.makedirs(folder, exist_ok=True)
    mark = os.path.join(folder, ".made")
    with open(os.path.join(folder, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(mark):
            return 0
        code = subprocess.call([sys.executable, "-m", "venv", folder])
        if code == 0:
            open(mark, "w").close()
        return code


def install(package):
    # type: (str) -> bool
    """Install a Debian package if that asks nobody anything. Say whether it is there now."""
    if shutil.which("apt-get") is None:
        return False
    prefix = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if prefix and shutil.which("sudo") is None:
        return False
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for words in (["update", "-qq"], ["install", "-qq", "--yes", package]):
        if subprocess.call([*prefix, "apt-get", *words], env=environment) != 0:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
