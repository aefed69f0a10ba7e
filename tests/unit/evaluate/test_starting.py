# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.errors import ProgramDied
from rpent_box.evaluate import starting
from rpent_box.evaluate.starting import HUNG_GRACE_S, Programs
from rpent_box.launch.program import ExitStatus, Program

CRASH = ExitStatus(code=139, signal="SIGSEGV", reason="killed by SIGSEGV")


def program(role):
    return Program(
        role=role, name="toy", module="m", arguments=(), image="", python="", root=None, log="x.log"
    )


class FakeRunning:
    """A program that runs until a test says how it ended."""

    def __init__(self, program):
        self.program = program
        self.status = None
        self.stops = []

    def describe(self):
        return f"{self.program.role} toy"

    def exit_status(self):
        return self.status

    def last_log_lines(self, count=20):
        return "last words"

    def stop(self, *, grace_s):
        self.stops.append(grace_s)


class FakeLauncher:
    def check(self, program):
        """It can be started."""

    def start(self, program, box):
        return FakeRunning(program)


@pytest.fixture
def programs():
    started = Programs(FakeLauncher(), box=None)
    started.start(program("worker"), program("simulator"))
    return started


def test_how_the_simulator_ended_is_told_while_the_worker_lives(programs):
    assert programs.how_simulator_ended() is None
    programs.simulator.status = CRASH
    assert programs.how_simulator_ended() == "killed by SIGSEGV"


def test_the_workers_end_comes_first_and_is_what_is_told(programs):
    programs.simulator.status = programs.worker.status = CRASH
    assert programs.how_simulator_ended() is None
    with pytest.raises(ProgramDied, match="worker toy has ended"):
        programs.watch()


def test_a_borrowed_worker_has_no_end_to_see():
    programs = Programs(FakeLauncher(), box=None)
    programs.start(None, program("simulator"))
    programs.simulator.status = CRASH
    assert programs.how_simulator_ended() == "killed by SIGSEGV"


def test_a_replacement_starts_once_nothing_of_the_first_is_left(programs, tmp_path, monkeypatch):
    removed = []
    monkeypatch.setattr(starting, "remove_dead_segments", lambda: removed.append("segments"))
    socket = tmp_path / "sim-0.sock"
    socket.touch()
    first, worker = programs.simulator, programs.worker
    programs.replace_simulator(program("simulator"), f"ipc://{socket}")
    assert first.stops == [HUNG_GRACE_S]
    assert removed == ["segments"]
    assert not socket.exists()
    assert programs.simulator is not first
    assert programs.worker is worker
    assert worker.stops == []
    programs.watch()


def test_simulators_share_a_worker_and_each_is_looked_after_with_it(programs):
    second = Programs(FakeLauncher(), box=None, worker=programs.worker)
    second.start_simulator(program("simulator"))
    programs.simulator.status = CRASH
    second.watch()
    programs.worker.status = CRASH
    with pytest.raises(ProgramDied, match="worker toy has ended"):
        second.watch()
