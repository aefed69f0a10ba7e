# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

from rpent_box.errors import ProgramDied
from rpent_box.evaluate.scale import shared
from rpent_box.evaluate.scale.shared import HeedingPrograms, SharedRunning, Stopped
from rpent_box.launch.program import ExitStatus, Program

CRASH = ExitStatus(code=139, signal="SIGSEGV", reason="killed by SIGSEGV")
PROGRAM = Program(
    role="worker", name="toy", module="m", arguments=(), image="", python="", root=None, log="x.log"
)


class FakeRunning:
    """A program that counts how often it is asked after."""

    program = PROGRAM
    status = None
    asked = 0

    def exit_status(self):
        self.asked += 1
        return self.status

    def describe(self):
        return "worker toy"

    def last_log_lines(self, count=20):
        return "last words"


def test_many_threads_ask_and_the_engine_is_asked_seldom(monkeypatch):
    monkeypatch.setattr(shared, "LOOK_EVERY_S", 0.2)
    running = FakeRunning()
    worker = SharedRunning(running)

    def look():
        for _ in range(500):
            worker.exit_status()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert 1 <= running.asked < 100


def test_how_it_ended_is_final_and_soon_known(monkeypatch):
    monkeypatch.setattr(shared, "LOOK_EVERY_S", 0.0)
    running = FakeRunning()
    worker = SharedRunning(running)
    assert worker.exit_status() is None
    running.status = CRASH
    assert worker.exit_status() == CRASH
    asked = running.asked
    assert worker.exit_status() == CRASH
    assert running.asked == asked


def test_a_call_to_stop_comes_before_the_end_of_a_program():
    running = FakeRunning()
    running.status = CRASH
    calls = []

    def go_on():
        if calls:
            raise Stopped

    programs = HeedingPrograms(launcher=None, box=None, worker=SharedRunning(running), go_on=go_on)
    with pytest.raises(ProgramDied, match="worker toy has ended"):
        programs.watch()
    calls.append("stop")
    with pytest.raises(Stopped):
        programs.watch()


def test_no_simulator_is_started_any_more_once_playing_is_to_end():
    def go_on():
        raise Stopped

    # A launcher that is None would be found out.
    programs = HeedingPrograms(launcher=None, box=None, worker=None, go_on=go_on)
    with pytest.raises(Stopped):
        programs.replace_simulator(PROGRAM, "ipc:///nowhere/sim-0.sock")
