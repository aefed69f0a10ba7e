# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

from rpent_box.launch.held import HeldDirectory, is_dead


def test_a_held_directory_cannot_be_taken_and_is_not_dead(tmp_path: Path) -> None:
    held = HeldDirectory.create(tmp_path / "one")
    assert held is not None
    assert HeldDirectory.take(tmp_path / "one") is None
    assert not is_dead(tmp_path / "one")
    held.release()
    assert is_dead(tmp_path / "one")
    assert (tmp_path / "one").is_dir()


def test_removing_deletes_and_lets_go_and_may_be_done_twice(tmp_path: Path) -> None:
    held = HeldDirectory.create(tmp_path / "one")
    assert held is not None
    (tmp_path / "one" / "file").write_text("x")
    held.remove()
    held.remove()
    assert not (tmp_path / "one").exists()
    assert is_dead(tmp_path / "one")


def test_an_owner_that_was_swept_between_mkdir_and_lock_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one"
    mkdir = Path.mkdir

    def swept(self: Path, mode: int = 0o777) -> None:
        mkdir(self, mode)
        self.rmdir()

    monkeypatch.setattr(Path, "mkdir", swept)
    assert HeldDirectory.create(path) is None


def test_a_directory_made_anew_under_the_same_name_is_not_the_one_that_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one"
    path.mkdir()

    def replaced(_: int) -> bool:
        path.rmdir()
        (tmp_path / "other").mkdir()  # Takes the inode's number, where the file system reuses it.
        path.mkdir()
        return True

    monkeypatch.setattr("rpent_box.launch.held._lock", replaced)
    assert HeldDirectory.take(path) is None


def test_a_link_is_never_held(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert HeldDirectory.take(tmp_path / "link") is None


def test_a_program_that_is_started_does_not_inherit_the_lock(tmp_path: Path) -> None:
    held = HeldDirectory.create(tmp_path / "one")
    assert held is not None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    held.release()
    try:
        assert is_dead(tmp_path / "one")
    finally:
        child.kill()
        child.wait()
