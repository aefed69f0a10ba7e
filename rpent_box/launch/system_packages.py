# SPDX-License-Identifier: Apache-2.0
"""Debian packages that a process needs: which are missing, and installing them where we may."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rpent_box.errors import EnvironmentMissing
from rpent_box.launch.commands import Command, run_all

ASK_S = 30.0
INSTALL_TIMEOUT_S = 900.0


def missing_system_packages(packages: Sequence[str]) -> list[str]:
    """Return those of `packages` that dpkg does not know; none on a system without dpkg."""
    if not packages or shutil.which("dpkg-query") is None:
        return []
    # Since the 64-bit time_t some libraries have another name, and provide the old one.
    asked = [name for package in packages for name in (package, f"{package}t64")]
    found = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *asked],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=ASK_S,
    ).stdout
    installed = {line.split(" ")[0] for line in found.splitlines() if line.endswith(" installed")}
    return [name for name in packages if not {name, f"{name}t64"} & installed]


def install_system_packages(
    packages: Sequence[str],
    *,
    log: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    prefix: Sequence[str] | None = None,
) -> None:
    """Install what is missing of `packages`, as root or with a sudo that asks nothing.

    `prefix` is what commands for root begin with; None: find out. Raises `EnvironmentMissing` with
    the one command to type where we may not.
    """
    missing = missing_system_packages(packages)
    if not missing:
        return
    prefix = root_prefix() if prefix is None else prefix
    if prefix is None:
        raise EnvironmentMissing(
            f"system packages are missing: {', '.join(missing)}",
            hint=f"Install them: sudo apt-get install {' '.join(missing)}",
        )
    install = ("apt-get", "install", "--yes", "--no-install-recommends", *missing)
    for words in (("apt-get", "update"), install):
        command = Command(
            what=f"{' '.join(words[:2])} ({' '.join(missing)})",
            words=(*prefix, *words),
            log=log,
            environment={**environ, "DEBIAN_FRONTEND": "noninteractive"},
            cwd=Path("/"),
        )
        run_all([command], timeout_s=INSTALL_TIMEOUT_S, say=say)


def root_prefix() -> tuple[str, ...] | None:
    """Return what a command for root begins with; None when it would ask for a password."""
    if os.geteuid() == 0:
        return ()
    if shutil.which("sudo") is None:
        return None
    asked = subprocess.run(
        ["sudo", "--non-interactive", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=ASK_S,
    )
    return ("sudo", "--non-interactive") if asked.returncode == 0 else None
