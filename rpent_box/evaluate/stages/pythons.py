# SPDX-License-Identifier: Apache-2.0
"""Whether a Python has what a stage imports: asked before the stage is started."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from rpent_box.errors import EnvironmentMissing, StartTimeout

ASK_TIMEOUT_S = 60.0
_PROGRAM = """
import importlib.util, sys
print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""


def missing_modules(
    python: str, modules: Sequence[str], *, environ: Mapping[str, str]
) -> list[str]:
    """Return those of `modules` that `python` could not import, without importing any.

    Raises as `ask` does.
    """
    return ask(python, _PROGRAM, modules, environ=environ).split()


def ask(
    python: str,
    program: str,
    words: Sequence[str],
    *,
    environ: Mapping[str, str],
    timeout_s: float = ASK_TIMEOUT_S,
) -> str:
    """Return what `program`, which `python` runs with `words`, writes on its standard output.

    Raises `EnvironmentMissing` where there is no such Python, or it fails; `StartTimeout` where it
    hangs.
    """
    if shutil.which(python) is None:
        raise EnvironmentMissing(f"there is no Python at {python}")
    try:
        asked = subprocess.run(
            # Isolated from the working directory, which a stage does not see either.
            [os.path.abspath(python) if os.sep in python else python, "-c", program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=os.sep,
            env=dict(environ),
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise StartTimeout(f"{python} does not answer within {timeout_s:.0f} s") from error
    except OSError as error:
        raise EnvironmentMissing(f"{python} cannot be run: {error.strerror}") from error
    if asked.returncode:
        raise EnvironmentMissing(
            f"{python} is no Python that works: exit code {asked.returncode}",
            detail=asked.stderr.strip(),
        )
    return asked.stdout
