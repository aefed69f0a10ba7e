# SPDX-License-Identifier: Apache-2.0
"""What there is to teach, asked of another Python: here one with a few experts of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rpent_box.cli.mini_lessons import require_lessons, require_sentences
from rpent_box.errors import EnvironmentMissing, UnknownName

ROOT = Path(__file__).parents[3]
GENERATE = """
from rpent_box.errors import UnknownName
print("noise of an import")
def find_lessons(names, *, own_only):
    for name in names:
        if name != "kitchen":
            raise UnknownName(f"there is no lesson called {name}", hint="There is: kitchen")
"""
CONTROLS = """
from rpent_box.errors import UnknownName
def choose_lessons(suite, tasks):
    if (suite, tasks) not in (("kitchen", "all"), ("kitchen", "3,open_it")):
        raise UnknownName(f"no scene of {suite} for {tasks}")
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "rpent_box_libero" / "teaching"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "generate.py").write_text(GENERATE)
    (package / "controls.py").write_text(CONTROLS)
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def test_lessons_that_there_are_not_are_named_with_those_that_there_are(
    environ: dict[str, str],
) -> None:
    require_lessons(sys.executable, ["kitchen"], environ)
    with pytest.raises(UnknownName, match="there is no lesson called kitten") as caught:
        require_lessons(sys.executable, ["kitchen", "kitten"], environ)
    assert caught.value.hint == "There is: kitchen"


def test_scenes_without_another_sentence_are_told_from_those_with_one(
    environ: dict[str, str],
) -> None:
    require_sentences(sys.executable, "kitchen", (), environ)
    require_sentences(sys.executable, "kitchen", (3, "open_it"), environ)
    with pytest.raises(UnknownName, match="no scene of kitchen for 4"):
        require_sentences(sys.executable, "kitchen", (4,), environ)


def test_a_python_that_cannot_say_is_an_error(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rpent_box_libero" / "teaching" / "generate.py").write_text("no Python\n")
    with pytest.raises(EnvironmentMissing, match="no Python that works") as caught:
        require_lessons(sys.executable, ["kitchen"], environ)
    assert "SyntaxError" in caught.value.detail


def test_the_programs_have_what_is_asked_of_them() -> None:
    teaching = ROOT / "platforms" / "libero" / "rpent_box_libero" / "teaching"
    find = "def find_lessons(names: Sequence[str], *, own_only: bool)"
    assert find in (teaching / "generate.py").read_text()
    assert "def choose_lessons(suite: str, tasks: str)" in (teaching / "controls.py").read_text()
