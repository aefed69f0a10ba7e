# SPDX-License-Identifier: Apache-2.0
"""Source trees: taken or fetched, and proven by git's own id either way."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "images/base/get_source.py"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


def git(*words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_NAME": "A" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "a@forge.test" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    return done.stdout.strip()


class Ground:
    """A clone with one revision of everything that git can hold, and its lock."""

    def __init__(self, root: Path) -> None:
        self.root, self.clone, self.lock = root, root / "clone", root / "sources.lock"
        self.given = root / "given"
        git("init", "--quiet", "--initial-branch=main", str(self.clone))
        self._fill(self.clone)
        git("-C", str(self.clone), "-c", "core.autocrlf=false", "add", "--all")
        git("-C", str(self.clone), "commit", "--quiet", "--message=One")
        self.revision = git("-C", str(self.clone), "rev-parse", "HEAD")
        self.tree = git("-C", str(self.clone), "rev-parse", "HEAD^{tree}")
        # A second one, so that the first is nobody's tip.
        (self.clone / "later.txt").write_text("later")
        git("-C", str(self.clone), "add", "--all")
        git("-C", str(self.clone), "commit", "--quiet", "--message=Two")
        self.lock.write_text(f"# One source.\nthing {self.clone} {self.revision} {self.tree}\n")

    def _fill(self, folder: Path) -> None:
        # git sorts `lib-old` < `lib/…` < `lib0`, and a plain sort by name does not.
        for path in ("lib/a.py", "lib/deep/b.py", "lib-old", "lib.txt", "lib0", "ümlaut.txt"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f"{path}\r\n$Id$\n")
        (folder / "run.sh").write_text("#!/bin/sh\n")
        (folder / "run.sh").chmod(0o755)
        (folder / "link").symlink_to("lib/a.py")
        (folder / "nowhere").symlink_to("/no/such/file")
        (folder / "link-to-folder").symlink_to("lib")
        (folder / "empty").touch()
        (folder / ".gitattributes").write_text("*.txt ident\nlib0 export-ignore\n")

    def hand_over(self) -> Path:
        """Put the tree where builds look for it, as an unpacked archive would be."""
        tree = self.given / "thing"
        tree.mkdir(parents=True)
        self._fill(tree)
        return tree

    def get(self, *words: str, name: str = "thing") -> tuple[int, str]:
        where = ("--lock", str(self.lock), "--given", str(self.given))
        done = subprocess.run(
            [sys.executable, str(SCRIPT), name, str(self.destination), *where, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stderr

    @property
    def destination(self) -> Path:
        return self.root / "opt" / "thing"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_the_id_computed_from_files_is_gits_own(ground: Ground) -> None:
    spec = importlib.util.spec_from_file_location("rpent_box_get_source", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tree = ground.hand_over()
    assert module.tree_id(tree) == ground.tree
    (tree / "no-files-in-here").mkdir()
    assert module.tree_id(tree) == ground.tree, "git knows no empty folders"


def test_a_build_that_a_git_hook_starts_leaves_the_hooks_repository_alone(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked = tmp_path / "hooked"
    git("init", "--quiet", "--initial-branch=main", str(hooked))
    monkeypatch.setenv("GIT_DIR", str(hooked / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(hooked))
    code, said = ground.get()
    assert code == 0, said
    assert (ground.destination / "lib0").is_file()
    assert [path.name for path in hooked.iterdir()] == [".git"]
    assert not (hooked / ".git" / "FETCH_HEAD").exists()


def test_a_revision_that_is_no_tip_is_fetched_with_its_bytes_as_they_are(ground: Ground) -> None:
    code, said = ground.get()
    assert code == 0, said
    assert (ground.destination / "lib.txt").read_bytes() == b"lib.txt\r\n$Id$\n"
    assert os.access(ground.destination / "run.sh", os.X_OK)
    assert (ground.destination / "nowhere").readlink() == Path("/no/such/file")
    assert not (ground.destination / ".git").exists()
    assert not (ground.destination / "later.txt").exists()


def test_a_tree_that_was_put_there_is_taken_and_git_is_not_asked(ground: Ground) -> None:
    tree = ground.hand_over()
    tree.chmod(0o700)
    (tree / "lib0").chmod(0o600)
    (tree / ".git").mkdir()
    (tree / ".git" / "config").write_text("left out")
    shutil.rmtree(ground.clone)
    code, said = ground.get()
    assert code == 0, said
    assert ground.tree in said
    assert not (ground.destination / ".git").exists()
    assert ground.destination.stat().st_mode & 0o777 == 0o755
    assert (ground.destination / "lib0").stat().st_mode & 0o777 == 0o644


def test_an_empty_folder_stands_for_nothing(ground: Ground) -> None:
    (ground.given / "thing").mkdir(parents=True)
    ground.destination.mkdir(parents=True)
    assert ground.get()[0] == 0


def _edit(tree: Path) -> None:
    (tree / "lib/a.py").write_text("other")


def _add(tree: Path) -> None:
    (tree / "new.py").touch()


def _remove(tree: Path) -> None:
    (tree / "empty").unlink()


def _unset_bit(tree: Path) -> None:
    (tree / "run.sh").chmod(0o644)


def _turn_link(tree: Path) -> None:
    (tree / "link").unlink()
    (tree / "link").symlink_to("lib/deep/b.py")


@pytest.mark.parametrize("spoil", [_edit, _add, _remove, _unset_bit, _turn_link])
def test_a_tree_that_differs_in_anything_is_refused_and_nothing_is_left(ground, spoil) -> None:
    spoil(ground.hand_over())
    code, said = ground.get()
    assert code == 1
    assert f"wanted {ground.tree}" in said
    assert "images/sources/README.md" in said
    assert not ground.destination.exists()
    assert list(ground.destination.parent.iterdir()) == []


def test_what_using_a_tree_left_in_it_is_named(ground: Ground) -> None:
    cache = ground.hand_over() / "lib" / "__pycache__"
    cache.mkdir()
    (cache / "a.pyc").touch()
    assert "for example: lib/__pycache__" in ground.get()[1]


def test_another_revision_at_the_address_is_refused(ground: Ground) -> None:
    ground.lock.write_text(f"thing {ground.clone} {ground.revision} {'0' * 40}\n")
    code, said = ground.get()
    assert (code, ground.destination.exists()) == (1, False)
    assert f"wanted {'0' * 40}" in said


def test_an_address_that_does_not_answer_is_told_with_the_way_around(ground: Ground) -> None:
    code, said = ground.get("--from", str(ground.root / "nothing"))
    assert code == 1
    assert "could not be fetched from" in said
    assert "put the tree into images/sources/thing" in said


def test_a_destination_that_holds_something_is_left_alone(ground: Ground) -> None:
    ground.destination.mkdir(parents=True)
    (ground.destination / "mine").write_text("mine")
    code, said = ground.get()
    assert code == 1
    assert "is not empty" in said
    assert (ground.destination / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("other https://forge.test/o.git {0} {1}", "no source called thing; it has: other"),
        ("thing https://forge.test/o.git {0}", "no line of a lock"),
        ("thing https://forge.test/o.git main {1}", "no line of a lock"),
    ],
)
def test_a_lock_that_does_not_pin_it_is_refused(ground: Ground, line: str, said: str) -> None:
    ground.lock.write_text(line.format("a" * 40, "b" * 40) + "\n")
    code, text = ground.get()
    assert code == 1
    assert said in text
