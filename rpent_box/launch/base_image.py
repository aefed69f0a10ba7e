# SPDX-License-Identifier: Apache-2.0
"""Which base image to build on: one made here, the recipe's own, or one to be made now."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from rpent_box.errors import LaunchError
from rpent_box.launch.commands import Command, run_all
from rpent_box.launch.system_packages import root_prefix

MADE_HERE = "rpent-box/base:bookworm"
MAKE_TIMEOUT_S = 1200.0
PULL_TIMEOUT_S = 300.0
ASK_S = 30.0
_DEFAULT = re.compile(r"(?m)^ARG BASE=(\S+)$")
_LIKE_MADE_HERE = re.compile(r"python:3\.11[.\d]*(-slim)?-bookworm(@\S+)?")
"""What `MADE_HERE` can stand in for: the same suite and the same Python."""


class Bases(Protocol):
    """What can be found out, and done, about base images on a machine. Cheap questions first."""

    def is_present(self, image: str) -> bool: ...

    def pull(self, image: str) -> str:
        """Fetch it; return why it could not be, or an empty text."""

    def can_make(self) -> bool: ...

    def make(self) -> None:
        """Make `MADE_HERE`."""


def choose_base(
    docker: str,
    checkout: Path,
    default: str,
    *,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> str:
    """Return a base image that is present, or that the engine can pull. Raises `LaunchError`.

    `default` is what the recipe names.
    """
    return decide(default, _MachineBases(docker, checkout, environ, say))


def decide(default: str, bases: Bases) -> str:
    """Return what to build on: made here before, the recipe's own, or made now.

    A base made here has one suite and one Python: a recipe that asks for others gets its own.
    """
    can_stand_in = _LIKE_MADE_HERE.fullmatch(default) is not None
    if can_stand_in and bases.is_present(MADE_HERE):
        return MADE_HERE
    if bases.is_present(default):
        return default
    refused = bases.pull(default)
    if not refused:
        return default
    if not can_stand_in:
        raise LaunchError(
            f"the base image {default} could not be pulled ({refused}), and {MADE_HERE}, which is "
            "made without a registry, has another system or Python",
            hint="Give a base that is here and has what that one has: --base IMAGE",
        )
    if bases.can_make():
        bases.make()
        return MADE_HERE
    raise LaunchError(
        f"there is no base image to build on: {default} could not be pulled ({refused}), and "
        "making one from this machine's package mirror needs root",
        hint="Make it: sudo python3 images/base/make_base.py",
    )


def default_base(dockerfile: Path) -> str:
    """Return the base that `dockerfile` names, a tag with its digest. Raises `LaunchError`."""
    found = _DEFAULT.search(dockerfile.read_text())
    if found is None:
        raise LaunchError(f"{dockerfile} names no default base: ARG BASE=IMAGE is missing")
    return found.group(1)


class _MachineBases:
    def __init__(
        self,
        docker: str,
        checkout: Path,
        environ: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._docker = docker
        self._checkout = checkout
        self._environ = environ
        self._say = say
        self._prefix: tuple[str, ...] | None = None

    def is_present(self, image: str) -> bool:
        return self._run(ASK_S, "image", "inspect", "--format={{.Id}}", image) == ""

    def pull(self, image: str) -> str:
        self._say(f"pulling {image}")
        return self._run(PULL_TIMEOUT_S, "pull", "--quiet", image)

    def can_make(self) -> bool:
        self._prefix = root_prefix()
        return self._prefix is not None

    def make(self) -> None:
        script = self._checkout / "images" / "base" / "make_base.py"
        command = Command(
            what=f"making {MADE_HERE} from this machine's package mirror",
            words=(*(self._prefix or ()), sys.executable, str(script)),
            log=self._checkout / "build" / "logs" / "base.log",
            environment=self._environ,
            cwd=self._checkout,
        )
        run_all([command], timeout_s=MAKE_TIMEOUT_S, say=self._say)

    def _run(self, timeout_s: float, *words: str) -> str:
        """Return the last line of what went wrong; empty when nothing did."""
        try:
            done = subprocess.run(
                [self._docker, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env=dict(self._environ),
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {timeout_s:.0f} s"
        if done.returncode == 0:
            return ""
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
