# SPDX-License-Identifier: Apache-2.0
"""Packages from a release beside the system's own, found where the system itself comes from."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "images/base/install_packages.py"
MESA = "mesa-vulkan-drivers/bookworm-backports"
STANZAS = """# Whose this is.

Types: deb
URIs: http://security.test/debian
Suites: bookworm-security
Components: main

Types: deb
# Why here.
URIs: http://m.test/debian
Suites: bookworm
 bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg
"""
LINES = """# Whose this is.
deb [signed-by=/k.gpg arch=amd64] http://m.test/debian bookworm main contrib
deb http://m.test/debian bookworm-updates main
"""
FAKE_APT = """#!{python}
import os, sys
from pathlib import Path
root, words = Path({root!r}), sys.argv[1:]
if words[0] == "indextargets":
    print((root / "targets").read_text(), end="")
else:
    with (root / "calls").open("a") as calls:
        parts = [word for word in words if word.startswith("Dir::Etc::sourceparts=")]
        seen = sorted(os.listdir(parts[0].partition("=")[2])) if parts else []
        shown = [word for word in words if word not in (*parts, "-o")]
        print(os.environ["DEBIAN_FRONTEND"], *shown, seen, file=calls)
"""


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rpent_box_install_packages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Ground:
    """A machine whose apt only notes what it is asked."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.parts = root / "sources.list.d"
        self.parts.mkdir()
        (self.parts / "debian.sources").write_text(STANZAS)
        apt, config = root / "apt-get", root / "apt-config"
        apt.write_text(FAKE_APT.format(python=sys.executable, root=str(root)))
        config.write_text(f"#!/bin/sh\necho \"PARTS='{self.parts}/'\"\n")
        for tool in (apt, config):
            tool.chmod(0o755)
        self.let_apt_know(
            ("Debian", "bookworm-security", "debian.sources:1"),
            ("Debian", "bookworm", "debian.sources:2"),
            ("Debian", "bookworm-updates", "debian.sources:2"),
            ("Somebody", "bookworm", "third.list:1"),
        )
        monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")

    def let_apt_know(self, *sources: tuple[str, str, str]) -> None:
        lines = [f"{origin}|{name}|{self.parts}/{place}\n" for origin, name, place in sources]
        (self.root / "targets").write_text("".join(lines))

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(tmp_path, monkeypatch)


def test_a_release_that_apt_does_not_know_is_there_for_this_one_run(
    script: ModuleType, ground: Ground
) -> None:
    script.install(["libvulkan1", MESA], simulate=False)
    seen = "['debian.sources', 'rpent-box-bookworm-backports-0.sources']"
    assert ground.calls() == [
        "noninteractive update -qq []",
        f"noninteractive update -qq {seen}",
        f"noninteractive install -qq --yes --no-install-recommends libvulkan1 {MESA} {seen}",
    ]
    assert [file.name for file in ground.parts.iterdir()] == ["debian.sources"]


def test_a_release_that_apt_knows_is_not_given_twice(script: ModuleType, ground: Ground) -> None:
    ground.let_apt_know(
        ("Debian", "bookworm", "debian.sources:2"),
        ("Debian Backports", "bookworm-backports", "b.list:1"),
    )
    script.install([MESA], simulate=True)
    assert ground.calls() == [
        "noninteractive update -qq []",
        f"noninteractive install --simulate --yes --no-install-recommends {MESA} []",
    ]


def test_packages_of_the_system_itself_need_no_other_sources(
    script: ModuleType, ground: Ground
) -> None:
    script.install(["libosmesa6"], simulate=False)
    assert len(ground.calls()) == 2


def test_without_a_source_of_the_release_beside_it_nothing_is_guessed(
    script: ModuleType, ground: Ground
) -> None:
    ground.let_apt_know(("Somebody", "bookworm", "third.list:1"))
    with pytest.raises(script.CannotInstall, match="knows neither bookworm-backports nor bookworm"):
        script.install([MESA], simulate=False)
    assert ground.calls() == ["noninteractive update -qq []"]


def test_a_stanza_is_repeated_with_all_that_it_says(script: ModuleType) -> None:
    entry = script.Entry("Debian", "bookworm", Path("/etc/apt/debian.sources"), 2)
    assert script.repeated(STANZAS, entry, "bookworm-backports") == (
        "Types: deb\nURIs: http://m.test/debian\nSuites: bookworm-backports\n"
        "Components: main contrib\nSigned-By: /usr/share/keyrings/some.gpg\n"
    )


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (2, "deb [signed-by=/k.gpg arch=amd64] http://m.test/debian other main contrib\n"),
        (3, "deb http://m.test/debian other main\n"),
    ],
)
def test_a_line_is_repeated_with_all_that_it_says(
    number: int, line: str, script: ModuleType
) -> None:
    entry = script.Entry("Debian", "bookworm", Path("/etc/apt/sources.list"), number)
    assert script.repeated(LINES, entry, "other") == line


def test_another_systems_release_is_left_away(script: ModuleType, tmp_path: Path) -> None:
    os_release = tmp_path / "os-release"
    os_release.write_text('ID=debian\nVERSION_CODENAME="trixie"\n')
    assert script.for_system(MESA, script.codename(os_release)) == "mesa-vulkan-drivers"
    assert script.for_system(MESA, "bookworm") == MESA
    assert script.for_system("libgl1", "bookworm") == "libgl1"


def test_what_apt_refuses_ends_it(ground: Ground) -> None:
    (ground.root / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "liba"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "error: apt-get update ended with 100\n"
