# SPDX-License-Identifier: Apache-2.0
from copy import copy

import pytest
from msgspec.structs import replace

from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.envs import GIB, Machine
from rpent_box.evaluate.scale.growth import Growth, Look


class World:
    """A machine whose clock, processes and worker go on as a test says."""

    def __init__(self, *, window_s=10.0, cores=8.0):
        self.now = 100.0
        self.cpu = {}
        self.idle_s = 0.0
        self.figures = Figures(ready_s=5.0)
        self.finished = 0
        self.simulators = (1, 2)
        self.growth = Growth(
            window_s=window_s,
            clock=lambda: self.now,
            machine=lambda: Machine(cores=cores, memory=100 * GIB),
            table=lambda: copy(self),
        )

    def cpu_s(self, pid):
        return self.cpu.get(pid, 0.0)

    def memory(self, pid):
        return pid * GIB

    def passes(self, seconds, *, share=0.1, idle=6.0, busy=0.2, finished=2, served=None):
        self.now += seconds
        self.idle_s += idle * seconds
        for pid in (*self.simulators, 99):
            self.cpu[pid] = self.cpu.get(pid, 0.0) + share * seconds
        count = len(self.simulators) * 5 if served is None else served
        self.figures = replace(
            self.figures,
            ready_s=self.figures.ready_s + seconds,
            busy_s=self.figures.busy_s + busy * seconds,
            served=self.figures.served + count,
            batches={1: self.figures.served + count},
        )
        self.finished += finished

    def look(self, **changes):
        seen = Look(
            simulators=self.simulators,
            worker=99,
            figures=self.figures,
            finished=self.finished,
            jobs=50,
        )
        return self.growth.look(replace(seen, **changes))


def test_nothing_is_said_before_the_window_is_over_and_episodes_have_shown_it():
    world = World()
    assert world.look() is None
    world.passes(9)
    assert world.look() is None
    world.passes(2)
    assert world.look().envs == 4


def test_without_a_finished_episode_it_waits_longer_but_not_for_ever():
    world = World()
    world.look()
    world.passes(30, finished=0)
    assert world.look() is None
    world.passes(11, finished=0)
    assert world.look().envs == 4


def test_more_are_added_as_long_as_each_addition_brings_something():
    world = World()
    world.look()
    world.passes(11)
    assert world.look().envs == 4
    world.simulators = (1, 2, 3, 4)
    assert world.look() is None
    world.passes(11, finished=9)
    assert world.look().envs == 8
    world.simulators = tuple(range(1, 9))
    world.look()
    world.passes(11, finished=9, served=20)
    choice = world.look()
    assert choice == (8, "no quicker than 4, so no more are added")
    assert world.growth.is_over
    assert world.look() is None


def test_what_made_the_whole_slower_is_taken_back():
    world = World()
    world.look()
    world.passes(11)
    assert world.look().envs == 4
    world.simulators = (1, 2, 3, 4)
    world.look()
    world.passes(11, finished=9, served=9)
    assert world.look() == (2, "slower with 4, so those that were added leave")
    assert world.growth.is_over


def test_simulators_that_compute_all_the_time_stay_as_many_and_why_is_said_once():
    world = World(cores=2.0)
    world.look()
    world.passes(11, share=0.9)
    choice = world.look()
    assert choice.envs == 2
    assert "0.0 of 2 cores are free, and each needs 0.90" in choice.why


def test_where_there_was_no_room_it_looks_again_later_and_says_nothing_twice():
    world = World()
    world.look()
    world.passes(11, idle=0.0)
    assert world.look().envs == 2
    for _ in range(3):
        world.passes(25, idle=6.0)
        assert world.look() is None
    world.passes(6)
    assert world.look() is None
    world.passes(11, idle=0.0)
    assert world.look() is None
    world.passes(81)
    assert world.look() is None
    world.passes(11)
    assert world.look().envs == 4


def test_who_waits_for_a_core_does_not_wait_for_the_model():
    world = World()
    world.look()
    world.passes(11, share=0.3, idle=0.05)
    choice = world.look()
    assert choice.envs == 2
    assert "0.1 of 8 cores are free" in choice.why


def test_what_cannot_be_seen_adds_nothing():
    world = World()
    choice = world.look(simulators=(1, None))
    assert choice == (2, "what a simulator needs cannot be seen from here")


@pytest.mark.parametrize("worker", [None, 99])
def test_a_worker_elsewhere_takes_no_core_here(worker):
    world = World(cores=1.0)
    world.look(worker=worker)
    world.passes(11, share=0.3)
    choice = world.look(worker=worker)
    assert choice.envs == (3 if worker is None else 2)
