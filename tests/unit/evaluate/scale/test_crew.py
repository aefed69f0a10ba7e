# SPDX-License-Identifier: Apache-2.0
"""What a crew makes of what its players meet, without any program."""

import threading
import time
from types import SimpleNamespace

import pytest

from rpent_box.contracts.messages import Figures
from rpent_box.errors import (
    BadActions,
    BadOption,
    ContractError,
    DeadlineExceeded,
    IncompatibleWorker,
    OutputError,
    PeerGone,
    PredictionFailed,
    ProgramDied,
    SimulatorHangs,
    WorkerDraining,
)
from rpent_box.evaluate.scale.crew import Crew
from rpent_box.evaluate.scale.figures import FiguresLine
from rpent_box.evaluate.scale.player import WorkerGone, ends_all
from rpent_box.evaluate.scale.shared import Stopped
from rpent_box.launch.program import ExitStatus

CRASH = ExitStatus(code=137, signal="SIGKILL", reason="killed by SIGKILL")


class State:
    """A place that remembers what was chosen."""

    def __init__(self):
        self.chosen = []

    def choose(self, choice):
        self.chosen.append(choice)


def crew_of(*players, stop=None):
    prepared = SimpleNamespace(
        config=None, checked=SimpleNamespace(plan=None), launcher=None, recipes=None
    )
    setup = SimpleNamespace(prepared=prepared, cores=None)
    made = Crew(setup, State(), Source(), lambda _event: None, stop or threading.Event())
    made._players.extend(players)
    made.worker = None
    return made


class Source:
    """Has jobs until it is said that all are done."""

    def __init__(self):
        self.has_jobs = True

    def wait(self, timeout_s):
        return self.has_jobs


class Player:
    """One of several; only its name is asked for, and whether it leaves."""

    is_leaving = False

    def __init__(self, name):
        self.name = name


def test_the_others_play_on_when_a_simulator_cannot_be_had_and_the_last_one_ends_it():
    first, second = Player("0"), Player("1")
    crew = crew_of(first, second)
    crew.lose_seat(first, SimulatorHangs("it was not ready in time\nand more"))
    crew.go_on()
    assert crew.state.chosen == [(1, "simulator 0 was given up: it was not ready in time")]
    crew.lose_seat(second, SimulatorHangs("nor was this"))
    with pytest.raises(Stopped):
        crew.go_on()
    assert str(crew._end) == "nor was this"


def test_who_was_told_to_leave_does_not_count_as_one_that_plays_on():
    first, second = Player("0"), Player("1")
    crew = crew_of(first, second)
    second.is_leaving = True
    crew.lose_seat(first, SimulatorHangs("it was not ready in time"))
    assert str(crew._end) == "it was not ready in time"


def test_whether_a_signal_ended_the_worker_is_told_with_its_end():
    crew = crew_of()
    crew.worker = SimpleNamespace(exit_status=lambda: CRASH)
    crew.lose_worker(ProgramDied("the worker died"))
    assert crew._end.was_killed
    crew = crew_of()
    crew.worker = SimpleNamespace(exit_status=lambda: ExitStatus(code=3, reason="exit code 3"))
    crew.lose_worker(ProgramDied("the worker died"))
    assert not crew._end.was_killed


def test_the_first_reason_is_what_is_raised():
    crew = crew_of()
    crew.lose_worker(ProgramDied("the worker died"))
    crew.fail(PeerGone("and so nobody answered"))
    assert isinstance(crew._end, WorkerGone)
    assert crew._end.error.message == "the worker died"


def test_a_call_to_stop_is_heard_and_the_end_of_all_jobs_only_by_who_is_starting():
    stop = threading.Event()
    crew = crew_of(stop=stop)
    crew.go_on(starting=True)
    crew.source.has_jobs = False
    crew.go_on()
    with pytest.raises(Stopped):
        crew.go_on(starting=True)
    stop.set()
    with pytest.raises(Stopped):
        crew.go_on()


def test_whether_the_worker_is_gone_is_what_its_program_says():
    crew = crew_of()
    crew.worker = SimpleNamespace(exit_status=lambda: None)
    assert not crew.worker_is_gone(PredictionFailed("it raised"))
    assert crew.worker_is_gone(WorkerDraining("it ends"))
    crew.worker = SimpleNamespace(exit_status=lambda: CRASH)
    assert crew.worker_is_gone(PredictionFailed("whatever"))


def test_a_borrowed_worker_is_gone_when_nobody_answers():
    crew = crew_of()
    assert crew.worker_is_gone(PeerGone("nobody"))
    assert not crew.worker_is_gone(PredictionFailed("it raised"))


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (BadOption("no such option"), True),
        (OutputError("the disk is full"), True),
        (IncompatibleWorker("another action space"), True),
        (ContractError("another renderer"), True),
        (BadActions("nan"), False),
        (PredictionFailed("it raised"), False),
        (SimulatorHangs("it hangs"), False),
        (ProgramDied("it died"), False),
    ],
)
def test_what_would_meet_every_episode_ends_all(error, ends):
    assert ends_all(error) is ends


@pytest.mark.parametrize(
    ("figures", "silent_s", "error", "is_gone"),
    [
        (Figures(served=5), 400.0, DeadlineExceeded("no answer"), True),
        (Figures(served=5), 100.0, DeadlineExceeded("no answer"), False),
        (Figures(served=6), 400.0, DeadlineExceeded("no answer"), False),
        (Figures(served=5), 400.0, PeerGone("hung up"), False),
        (Figures(served=5), 400.0, PredictionFailed("it raised"), False),
        (None, 0.0, DeadlineExceeded("no answer"), True),
        (None, 0.0, PeerGone("said nothing"), True),
        (None, 0.0, PredictionFailed("it raised"), False),
    ],
)
def test_a_worker_that_serves_no_one_for_as_long_as_a_prediction_may_take_counts_as_gone(
    monkeypatch, figures, silent_s, error, is_gone
):
    monkeypatch.setattr(FiguresLine, "ask", lambda *_, **__: figures)
    crew = crew_of()
    crew.worker = SimpleNamespace(exit_status=lambda: None)
    crew.worker_place = SimpleNamespace(endpoint="ipc:///nowhere")
    crew._served, crew._served_since = 5, time.monotonic() - silent_s
    assert crew.worker_is_gone(error) is is_gone
