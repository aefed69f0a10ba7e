# SPDX-License-Identifier: Apache-2.0
"""Which base image to build on: one made here, the official one, or one to be made now."""

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
    *,
    asked: str | None,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> str:
    """Return a base image that is present, or that the engine can pull. Raises `LaunchError`."""
    official = official_base(checkout)
    return decide(asked, official, _MachineBases(docker, checkout, environ, say))


def decide(asked: str | None, official: str, bases: Bases) -> str:
    """Return what to build on: what was asked for, made here before, official, or made now."""
    if asked:
        return asked
    if bases.is_present(MADE_HERE):
        return MADE_HERE
    if bases.is_present(official):
        return official
    refused = bases.pull(official)
    if not refused:
        return official
    if bases.can_make():
        bases.make()
        return MADE_HERE
    raise LaunchError(
        f"there is no base image to build on: {official} could not be pulled ({refused}), and "
        "making one from this machine's package mirror needs root",
        hint="Make it: sudo python3 images/base/make_base.py",
    )


def official_base(checkout: Path) -> str:
    """Return the default that the recipes name, a tag with its digest."""
    found = _DEFAULT.search((checkout / "Dockerfile.sim").read_text())
    if found is None:
        raise LaunchError("Dockerfile.sim names no default base: ARG BASE=IMAGE is missing")
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
