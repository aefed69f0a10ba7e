# SPDX-License-Identifier: Apache-2.0
"""Debian packages: which are missing, and what installs them where we may."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rpent_box.errors import EnvironmentMissing
from rpent_box.launch import system_packages

SCRIPT = Path("/checkout/images/base/install_packages.py")
MESA = "mesa-vulkan-drivers/bookworm-backports"
Say = Callable[..., None]


@pytest.fixture
def let_dpkg_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return what puts a dpkg-query with that answer first on PATH."""

    def say(*lines: str) -> None:
        dpkg = tmp_path / "dpkg-query"
        dpkg.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        dpkg.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return say


def test_missing_packages_are_named_and_a_new_name_counts(let_dpkg_say: Say) -> None:
    let_dpkg_say("liba installed 1", "libbt64 installed 2", "libc config-files 3")
    assert system_packages.missing_system_packages(["liba", "libb", "libc"]) == ["libc"]


@pytest.mark.parametrize(
    ("version", "codename", "missing"),
    [
        ("25.0.7-2~bpo12+1", "bookworm", []),
        ("22.3.6-1+deb12u2", "bookworm", [MESA]),
        ("25.0.7-2", "trixie", []),
        ("25.0.7-2", "", []),
    ],
)
def test_a_package_from_backports_is_missing_while_it_is_the_releases_own(
    version: str,
    codename: str,
    missing: list[str],
    let_dpkg_say: Say,
) -> None:
    let_dpkg_say(f"mesa-vulkan-drivers installed {version}")
    assert system_packages.missing_system_packages([MESA], codename) == missing


@pytest.mark.parametrize(
    ("packages", "command"),
    [
        (["liba", "libb"], "sudo apt-get install liba libb"),
        (["liba", MESA], f"sudo python3 {SCRIPT} liba {MESA}"),
    ],
)
def test_without_root_the_error_gives_the_one_command(
    packages: list[str], command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(system_packages, "missing_system_packages", lambda names: list(names))
    monkeypatch.setattr(system_packages, "root_prefix", lambda: None)
    with pytest.raises(EnvironmentMissing) as caught:
        system_packages.install_system_packages(
            packages, script=SCRIPT, log=tmp_path / "log", environ={}, say=lambda _text: None
        )
    assert caught.value.hint == f"Install them: {command}"


def test_with_root_only_what_is_missing_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "install.py"
    script.write_text(
        f"import sys; open({str(tmp_path / 'calls')!r}, 'w').write(repr(sys.argv[1:]))"
    )
    monkeypatch.setattr(system_packages, "missing_system_packages", lambda _names: [MESA])
    system_packages.install_system_packages(
        ["liba", MESA],
        script=script,
        log=tmp_path / "log",
        environ=dict(os.environ),
        say=lambda _text: None,
        prefix=(),
    )
    assert (tmp_path / "calls").read_text() == repr([MESA])
