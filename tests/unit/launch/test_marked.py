# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from rpent_box.launch.marked import (
    MARK,
    end_processes,
    is_alive,
    is_recorded,
    marked_processes,
    start_ticks,
)

BOX = "0badc0de"
SLEEP = "import sys, time; print(flush=True); time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


def spawn(script: str, *words: str, mark: str | None = BOX) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **({MARK: mark} if mark else {})}
    command = [sys.executable, "-c", script, *words]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def marked() -> Iterator[subprocess.Popen[bytes]]:
    process = spawn(SLEEP)
    yield process
    process.kill()
    process.wait()


def test_only_processes_with_the_mark_are_found(marked: subprocess.Popen[bytes]) -> None:
    other = spawn(SLEEP, BOX, mark="deadbeef")
    unmarked = spawn(SLEEP, BOX, mark=None)
    try:
        assert marked_processes(BOX) == [marked.pid]
    finally:
        for process in (other, unmarked):
            process.kill()
            process.wait()


def test_a_session_narrows_the_search(marked: subprocess.Popen[bytes]) -> None:
    assert marked_processes(BOX, session=marked.pid) == [marked.pid]
    assert marked_processes(BOX, session=marked.pid + 1) == []


def test_a_zombie_is_not_alive() -> None:
    process = spawn(SLEEP)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(process.pid)
    assert marked_processes(BOX) == []
    process.wait()


def test_a_record_counts_only_for_the_same_process_naming_the_same_box() -> None:
    process = spawn(SLEEP, "--box", BOX, mark=None)
    ticks = start_ticks(process.pid)
    assert ticks > 0
    assert is_recorded(process.pid, ticks, BOX)
    assert not is_recorded(process.pid, ticks + 1, BOX)
    assert not is_recorded(process.pid, 0, BOX)
    assert not is_recorded(process.pid, ticks, "deadbeef")
    process.kill()
    process.wait()
    assert not is_recorded(process.pid, ticks, BOX)


def test_ending_waits_no_longer_than_needed(marked: subprocess.Popen[bytes]) -> None:
    started = time.monotonic()
    assert end_processes([marked.pid], grace_s=10) == []
    assert time.monotonic() - started < 5
    assert marked.wait(timeout=5) == -15


def test_what_ignores_sigterm_is_killed_after_the_grace() -> None:
    process = spawn(STUBBORN)
    started = time.monotonic()
    assert end_processes([process.pid], grace_s=0.3) == []
    assert 0.25 < time.monotonic() - started < 5
    assert process.wait(timeout=5) == -9


def test_ending_nothing_or_the_dead_is_no_error() -> None:
    process = spawn(SLEEP)
    process.kill()
    process.wait()
    assert end_processes([], grace_s=1) == []
    assert end_processes([process.pid], grace_s=1) == []
