#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Install system packages, some of them from a release beside the system's own. Needs root.

    python3 images/base/install_packages.py NAME[/RELEASE]... [--simulate]

`mesa-vulkan-drivers/bookworm-backports` is apt's own notation: that package, and what it needs in
versions that the system's release lacks, comes from there; nothing else does. Where apt does not
know such a release, it is looked for where the system itself comes from, for this one run: the
entries of apt's sources that give `bookworm` are repeated with `bookworm-backports`. Nothing of
that stays. A release of another system than this one is left away: newer systems have newer
packages.

Standard library only: it runs in images and on machines before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

BACKPORTS = "-backports"
ORIGINS = ("Debian", "Ubuntu")
"""Who has backports beside a release. Third parties call their own releases the same."""
TIMEOUT_S = 900
OS_RELEASE = Path("/etc/os-release")


class CannotInstall(Exception):
    """What came, what was wanted, and the next command."""


class Entry(NamedTuple):
    """One source that apt knows."""

    origin: str
    codename: str
    file: Path
    number: int
    """Its line, or in a `.sources` file its stanza; the first is 1."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("packages", metavar="NAME[/RELEASE]", nargs="+")
    parser.add_argument("--simulate", action="store_true", help="only say what would be installed")
    arguments = parser.parse_args()
    packages = [for_system(package, codename(OS_RELEASE)) for package in arguments.packages]
    try:
        install(packages, simulate=arguments.simulate)
    except CannotInstall as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: {' '.join(error.cmd[:2])} ended with {error.returncode}\n")
        return 1
    return 0


def install(packages: Sequence[str], *, simulate: bool) -> None:
    """Let apt install `packages`. Raises `CannotInstall`, `CalledProcessError`."""
    apt("update", "-qq")
    how = ["--simulate"] if simulate else ["-qq"]
    with tempfile.TemporaryDirectory(prefix="rpent-box-apt-") as folder:
        options = more_sources(wanted_releases(packages), known_entries(), Path(folder))
        if options:
            apt(*options, "update", "-qq")
        apt(*options, "install", *how, "--yes", "--no-install-recommends", *packages)


def for_system(package: str, system: str) -> str:
    """Return `package` without a release that belongs to another system than `system`."""
    name, _, release = package.partition("/")
    return package if release.removesuffix(BACKPORTS) == system else name


def codename(os_release: Path) -> str:
    """Return this system's, e.g. `bookworm`; empty where it says none."""
    found = re.search(r'(?m)^VERSION_CODENAME="?([a-z]+)"?$', os_release.read_text())
    return found.group(1) if found else ""


def wanted_releases(packages: Sequence[str]) -> list[str]:
    """Return the releases that `packages` name, each once."""
    named = (package.partition("/")[2] for package in packages)
    return list(dict.fromkeys(release for release in named if release))


def known_entries() -> list[Entry]:
    """Return the sources that apt has lists of packages from."""
    form = "$(ORIGIN)|$(CODENAME)|$(SOURCESENTRY)"
    words = ("apt-get", "indextargets", f"--format={form}", "Created-By: Packages")
    lines = answer(*words).splitlines()
    return list(dict.fromkeys(_entry(line) for line in lines if line.count("|") == 2))


def more_sources(releases: Sequence[str], known: Sequence[Entry], folder: Path) -> list[str]:
    """Write into `folder` the sources of those `releases` that apt does not know yet.

    Returns apt's options that make it read them beside its own; none where it knows all. Raises
    `CannotInstall` when apt has no source of the release that they are made for.
    """
    missing = [one for one in releases if one not in {entry.codename for entry in known}]
    if not missing:
        return []
    for release in missing:
        stem = release.removesuffix(BACKPORTS)
        beside = [one for one in known if one.codename == stem and one.origin in ORIGINS]
        if not beside:
            raise CannotInstall(
                f"apt knows neither {release} nor {stem}, beside which it would be.\n"
                f"next:  add a source of {release} to /etc/apt/sources.list.d, and run this again"
            )
        for number, entry in enumerate(beside):
            suffix = ".sources" if entry.file.suffix == ".sources" else ".list"
            text = repeated(entry.file.read_text(), entry, release)
            (folder / f"rpent-box-{release}-{number}{suffix}").write_text(text)
    for file in _own_parts():
        (folder / file.name).symlink_to(file)
    return ["-o", f"Dir::Etc::sourceparts={folder}"]


def repeated(text: str, entry: Entry, release: str) -> str:
    """Return what gives `release` from where `entry` of the file with `text` comes from."""
    if entry.file.suffix != ".sources":
        line = text.splitlines()[entry.number - 1]
        return re.sub(r"^(\s*deb\s+(?:\[[^]]*\]\s*)?\S+\s+)\S+", rf"\g<1>{release}", line) + "\n"
    stanza = list(_stanzas(text))[entry.number - 1]
    return re.sub(r"(?mi)^Suites:.*(\n[ \t].*)*", f"Suites: {release}", stanza) + "\n"


def _stanzas(text: str) -> Iterator[str]:
    without_comments = re.sub(r"(?m)^#.*\n?", "", text)
    yield from (part for part in re.split(r"\n\s*\n", without_comments.strip()) if part)


def _own_parts() -> list[Path]:
    folder = answer("apt-config", "shell", "PARTS", "Dir::Etc::sourceparts/d")
    found = re.search(r"PARTS='(.*)'", folder)
    parts = Path(found.group(1)) if found else Path("/dev/null")
    return sorted(file for file in parts.iterdir() if file.is_file()) if parts.is_dir() else []


def _entry(line: str) -> Entry:
    origin, name, place = line.split("|")
    file, _, number = place.rpartition(":")
    return Entry(origin, name, Path(file), int(number))


def apt(*words: str) -> None:
    """Run apt-get, which asks nothing. Raises `CalledProcessError`."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        ["apt-get", *words],
        check=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        timeout=TIMEOUT_S,
    )


def answer(*command: str) -> str:
    """Return what a command says. Raises `CalledProcessError`."""
    return subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
