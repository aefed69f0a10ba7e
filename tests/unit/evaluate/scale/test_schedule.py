# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.schedule import Schedule


def jobs_of(*counts):
    """Return `counts[task]` jobs of each task, in order."""
    found = []
    for task, count in enumerate(counts):
        for state in range(count):
            found.append(
                Job(episode=len(found), suite="s", task=task, init_state=state, seed=7, max_steps=9)
            )
    return found


def test_a_simulator_stays_with_its_task_then_takes_an_untouched_one_then_splits_the_largest():
    schedule = Schedule(jobs_of(2, 4, 3))
    first = schedule.take("0", None)
    assert (first.task, first.init_state) == (1, 0)
    second = schedule.take("1", None)
    assert (second.task, second.init_state) == (2, 0)
    again = schedule.take("0", first.task_key)
    assert (again.task, again.init_state) == (1, 1)
    third = schedule.take("2", None)
    assert (third.task, third.init_state) == (0, 0)
    split = schedule.take("3", None)
    assert (split.task, split.init_state) == (1, 3)


def test_a_task_whose_simulator_has_left_counts_as_untouched():
    schedule = Schedule(jobs_of(3, 9))
    assert schedule.take("0", None).task == 1
    assert schedule.take("1", None).task == 0
    schedule.leave("1")
    assert schedule.take("2", None).task == 0


def test_what_was_given_back_does_not_keep_others_from_being_played():
    """Of which a worker dies is handed out last, and not again and again as the first."""
    schedule = Schedule(jobs_of(2, 1))
    deadly = schedule.take("0", None)
    schedule.give_back(deadly)
    schedule.leave("0")
    assert schedule.waiting == 3
    others = [schedule.take("1", None) for _ in range(2)]
    assert deadly not in others
    assert schedule.take("1", deadly.task_key) == deadly


def test_two_jobs_with_one_key_are_refused():
    job, *_ = jobs_of(1)
    with pytest.raises(ValueError, match="each episode is played once"):
        Schedule([job, job])


def test_a_result_that_comes_twice_is_dropped_the_second_time():
    schedule = Schedule(jobs_of(1))
    job = schedule.take("lost", None)
    schedule.give_back(job)
    assert schedule.take("other", None) == job
    assert schedule.done(job)
    assert not schedule.done(job)
    schedule.give_back(job)
    assert schedule.take("other", job.task_key) is None
    assert not schedule.wait(0)


def test_a_late_result_of_a_job_that_waits_again_still_counts():
    schedule = Schedule(jobs_of(1))
    job = schedule.take("lost", None)
    schedule.give_back(job)
    assert schedule.done(job)
    assert schedule.take("other", None) is None
    assert schedule.unfinished == ()


def test_a_job_of_somewhere_else_is_an_error():
    with pytest.raises(ValueError, match="no job of this schedule"):
        Schedule(jobs_of(1)).done(jobs_of(1, 1)[1])


def test_waiting_ends_when_a_job_comes_back_and_when_all_are_done():
    schedule = Schedule(jobs_of(1))
    job = schedule.take("0", None)
    began = time.monotonic()
    assert schedule.wait(0.05)
    assert time.monotonic() - began >= 0.05
    threading.Timer(0.05, schedule.give_back, [job]).start()
    assert schedule.wait(10)
    assert schedule.take("1", None) == job
    threading.Timer(0.05, schedule.done, [job]).start()
    assert not schedule.wait(10)
    assert time.monotonic() - began < 5


class Simulators:
    """Take and end jobs as they are told, and see that nothing is handed out twice."""

    def __init__(self, schedule):
        self.schedule = schedule
        self.holding, self.has, self.finished = {}, {}, Counter()

    def step(self, simulator, how):
        if simulator in self.has:
            self.end(simulator, how)
        else:
            self.take(simulator)

    def take(self, simulator):
        job = self.schedule.take(str(simulator), self.holding.get(simulator))
        if job is not None:
            assert job not in self.has.values()
            assert not self.finished[job.key]
            self.has[simulator], self.holding[simulator] = job, job.task_key

    def end(self, simulator, how):
        job = self.has.pop(simulator)
        if how == "done":
            assert self.schedule.done(job)
            self.finished[job.key] += 1
            return
        self.schedule.give_back(job)
        if how == "die":
            self.schedule.leave(str(simulator))
            self.holding.pop(simulator)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(("done", "done", "done", "back", "die")))
    ),
)
def test_whatever_happens_every_job_is_played_once(counts, steps):
    jobs = jobs_of(*counts)
    crew = Simulators(Schedule(jobs))
    for simulator, how in steps:
        crew.step(simulator, how)
    while crew.schedule.wait(0):
        for simulator in range(4):
            crew.step(simulator, "done")
    assert crew.finished == Counter(job.key for job in jobs)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    simulators=st.integers(1, 6),
    order=st.randoms(use_true_random=False),
)
def test_tasks_are_changed_seldom(counts, simulators, order):
    """With undisturbed simulators, only at the end of a task: at most once for each, and then for
    each split, of which the last jobs of the last tasks make a few."""
    schedule = Schedule(jobs_of(*counts))
    holding, changes = {}, 0
    while schedule.waiting:
        simulator = order.randrange(simulators)
        job = schedule.take(str(simulator), holding.get(simulator))
        changes += holding.get(simulator) != job.task_key
        holding[simulator] = job.task_key
        schedule.done(job)
    assert changes <= len(counts) * simulators
    if simulators == 1:
        assert changes == len(counts)


def test_threads_share_a_schedule_without_losing_or_repeating_a_job():
    jobs = jobs_of(*[25] * 8)
    schedule, played, lock = Schedule(jobs), Counter(), threading.Lock()

    def play(name):
        holding, tries = None, 0
        while schedule.wait(0.2):
            job = schedule.take(name, holding)
            if job is None:
                continue
            holding, tries = job.task_key, tries + 1
            if tries % 7 == 0:
                schedule.give_back(job)
                continue
            with lock:
                played[job.key] += schedule.done(job)

    threads = [threading.Thread(target=play, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert played == Counter(job.key for job in jobs)
