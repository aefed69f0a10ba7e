# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_boxes import leftovers, reapers, wait_for, wait_for_reaper

from rpent_box.launch.box import Box
from rpent_box.launch.marked import marked_processes


@pytest.fixture
def box(tmp_path: Path) -> Box:
    box = Box.create(tmp_path)
    wait_for_reaper(box.id)
    return box


def test_a_reaper_is_detached_and_idle(box: Box) -> None:
    (pid,) = reapers(box.id)
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    wait_for(lambda: _cpu_is_idle(pid), within_s=20, what="sleep in the kernel")
    files = sorted(os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    assert files == [*["/dev/null"] * 3, str(box.paths.lease)]
    box.close()
    assert reapers(box.id) == []


def test_a_reaper_is_not_taken_for_a_program_of_its_owners_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RPENT_BOX_ID", "0badc0de")
    with Box.create(tmp_path) as box:
        wait_for_reaper(box.id)
        assert marked_processes("0badc0de") == []


def test_a_reaper_survives_what_a_closing_terminal_sends(box: Box) -> None:
    (pid,) = reapers(box.id)
    os.kill(pid, 1)
    os.kill(pid, 2)
    time.sleep(0.2)
    assert reapers(box.id) == [pid]
    box.close()


def test_a_reaper_imports_nothing_from_where_its_owner_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('the wrong argparse')\n")
    monkeypatch.chdir(tmp_path)
    with Box.create(tmp_path / "rt") as box:
        wait_for_reaper(box.id)
        (pid,) = reapers(box.id)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_a_reaper_imports_neither_the_docker_sdk_nor_numpy() -> None:
    script = (
        "import sys, rpent_box.launch.reaper\n"
        "print(sorted({'docker', 'numpy', 'zmq', 'requests'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout == "[]\n", said.stderr


def test_a_reaper_of_a_box_that_has_gone_ends_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rpent_box.launch.reaper", "0badc0de"]
    ended = subprocess.run([*command, "--runtime-dir", str(tmp_path)], timeout=20)
    assert ended.returncode == 0


def test_what_an_owner_could_not_remove_the_reaper_does(box: Box) -> None:
    # As after a kill -9: the locks go, everything else stays.
    box._forget()
    wait_for(lambda: not leftovers(box.paths), within_s=10, what="an empty machine")


def _cpu_is_idle(pid: int) -> bool:
    before = _cpu_ticks(pid)
    time.sleep(0.5)
    return _cpu_ticks(pid) == before


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
