# SPDX-License-Identifier: Apache-2.0
"""Which ends of workers are answered with another one, without any program."""

import threading
from types import SimpleNamespace

import pytest

from rpent_box.errors import ProgramDied
from rpent_box.evaluate.scale import local
from rpent_box.evaluate.scale.events import WorkerLost
from rpent_box.evaluate.scale.local import play_here
from rpent_box.evaluate.scale.player import WorkerGone

LOADING, PLAYING = "while it loads", "after an episode"


class Source:
    """Has jobs until a crew has played them."""

    has_jobs = True

    def wait(self, timeout_s):
        return self.has_jobs


def play(monkeypatch, ends, *, endpoint=None):
    """Play with workers that end as `ends` has it, each (when, whether killed); then all is played.

    Returns how many workers were started, and what was told.
    """
    source, told, left = Source(), [], list(ends)

    class Crew:
        def __init__(self, setup, state, *_):
            self.state = state

        def play(self):
            self.state.worker_starts += 1
            if not left:
                source.has_jobs = False
                return
            when, was_killed = left.pop(0)
            if when == PLAYING:
                self.state.worker_was_ready = True
                self.state.count_finished()
            raise WorkerGone(ProgramDied("the worker has ended"), was_killed=was_killed)

    monkeypatch.setattr(local, "Crew", Crew)
    prepared = SimpleNamespace(config=SimpleNamespace(endpoint=endpoint))
    setup = SimpleNamespace(name="", prepared=prepared)
    play_here(setup, source, told.append, threading.Event())
    return told[-1].place.worker_starts, [one for one in told if isinstance(one, WorkerLost)]


def test_a_first_worker_that_something_kills_while_it_loads_is_started_once_more(monkeypatch):
    starts, lost = play(monkeypatch, [(LOADING, True)])
    assert (starts, len(lost)) == (2, 1)
    with pytest.raises(ProgramDied):
        play(monkeypatch, [(LOADING, True)] * 2)


def test_a_first_worker_that_ends_by_itself_while_it_loads_ends_the_evaluation(monkeypatch):
    with pytest.raises(ProgramDied, match="^the worker has ended"):
        play(monkeypatch, [(LOADING, False)])


def test_workers_are_replaced_as_long_as_episodes_are_finished_in_between(monkeypatch):
    assert play(monkeypatch, [(PLAYING, False)] * 9)[0] == 10
    never = [(PLAYING, False), *[(LOADING, False)] * (local.WORKER_LOSSES - 1)]
    with pytest.raises(ProgramDied, match="3 workers in a row"):
        play(monkeypatch, never)


def test_a_borrowed_worker_is_not_ours_to_replace(monkeypatch):
    with pytest.raises(ProgramDied):
        play(monkeypatch, [(PLAYING, True)], endpoint="ipc:///there")
