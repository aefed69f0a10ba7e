# SPDX-License-Identifier: Apache-2.0
"""Debian packages that a process needs: which are missing, and installing them where we may.

A package may name the release that it has to come from: `mesa-vulkan-drivers/bookworm-backports`.
On a system that this release does not belong to, the system's own does.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rpent_box.errors import EnvironmentMissing
from rpent_box.launch.commands import Command, run_all

ASK_S = 30.0
INSTALL_TIMEOUT_S = 1800.0
_BACKPORTS = "-backports"
_MARK_OF_BACKPORTS = "~bpo"
"""Part of the version of each package from backports."""


def missing_system_packages(packages: Sequence[str], codename: str | None = None) -> list[str]:
    """Return those of `packages` that are not installed; none on a system without dpkg.

    One that has to come from backports is missing as well while it is of this system's release
    itself. `codename` is this system's, e.g. `bookworm`; None: find out.
    """
    if not packages or shutil.which("dpkg-query") is None:
        return []
    codename = system_codename() if codename is None else codename
    versions = _installed_versions([package.partition("/")[0] for package in packages])
    return [one for one in packages if not _is_installed(one, versions, codename)]


def install_system_packages(
    packages: Sequence[str],
    *,
    script: Path,
    log: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    prefix: Sequence[str] | None = None,
) -> None:
    """Install what is missing of `packages`, as root or with a sudo that asks nothing.

    `script` is what installs them, `Recipe.install_packages`. `prefix` is what commands for root
    begin with; None: find out. Raises `EnvironmentMissing` with the one command to type where we
    may not.
    """
    missing = missing_system_packages(packages)
    if not missing:
        return
    prefix = root_prefix() if prefix is None else prefix
    if prefix is None:
        raise EnvironmentMissing(
            f"system packages are missing: {', '.join(missing)}",
            hint=f"Install them: {install_command(missing, script)}",
        )
    command = Command(
        what=f"installing system packages ({', '.join(missing)})",
        words=(*prefix, sys.executable, str(script), *missing),
        log=log,
        environment=dict(environ),
        cwd=Path("/"),
    )
    run_all([command], timeout_s=INSTALL_TIMEOUT_S, say=say)


def install_command(packages: Sequence[str], script: Path) -> str:
    """Return the one command that installs `packages`, for people."""
    if any("/" in package for package in packages):
        # apt-get by itself takes them only where their release is among its sources.
        return f"sudo python3 {script} {' '.join(packages)}"
    return f"sudo apt-get install {' '.join(packages)}"


def system_codename() -> str:
    """Return the name of this system's release, e.g. `bookworm`; empty where it says none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def _is_installed(package: str, versions: Mapping[str, str], codename: str) -> bool:
    name, _, release = package.partition("/")
    # Since the 64-bit time_t some libraries have another name, and provide the old one.
    version = versions.get(name) or versions.get(f"{name}t64", "")
    if release.endswith(_BACKPORTS) and release.removesuffix(_BACKPORTS) == codename:
        return _MARK_OF_BACKPORTS in version
    return bool(version)


def _installed_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the version of each of `names`, and of its 64-bit time_t twin, that is installed."""
    form = "${Package} ${db:Status-Status} ${Version}\n"
    asked = [name for one in names for name in (one, f"{one}t64")]
    found = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={form}", *asked],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=ASK_S,
    ).stdout
    words = [line.split(" ") for line in found.splitlines()]
    return {word[0]: word[2] for word in words if len(word) == 3 and word[1] == "installed"}


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
