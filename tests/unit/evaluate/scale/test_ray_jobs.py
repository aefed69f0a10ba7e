# SPDX-License-Identifier: Apache-2.0
"""The jobs of one machine: each caller gets the outcome of its own, and nothing is played twice."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rpent_box.evaluate.scale.events import Failed
from rpent_box.evaluate.scale.plan import Job, TaskKey
from rpent_box.evaluate.scale.ray_jobs import GivenJobs
from rpent_box.evaluate.scale.ray_messages import NotPlayed


def job(episode, task=0):
    return Job(
        episode=episode, suite="toy_easy", task=task, init_state=episode, seed=7, max_steps=40
    )


def failed(one):
    return Failed(simulator="node-0/0", job=one, code="simulator", message=f"episode {one.episode}")


@pytest.fixture
def callers():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def taken(jobs, holding=None):
    """Take a job as soon as one waits."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        assert jobs.wait(5)
        one = jobs.take("node-0/0", holding)
        if one is not None:
            return one
    raise AssertionError("no job came")


def test_a_caller_gets_the_outcome_of_its_own_job(callers):
    jobs = GivenJobs()
    calls = {n: callers.submit(jobs.play, job(n)) for n in range(3)}
    for one in [taken(jobs) for _ in range(3)][::-1]:
        jobs.ended(failed(one))
    assert {n: call.result(5).message for n, call in calls.items()} == {
        n: f"episode {n}" for n in range(3)
    }


def test_a_job_that_is_asked_for_again_is_played_once(callers):
    jobs = GivenJobs()
    first = callers.submit(jobs.play, job(1))
    one = taken(jobs)
    second = callers.submit(jobs.play, job(1))
    time.sleep(0.05)
    assert jobs.take("node-0/1", None) is None
    jobs.ended(failed(one))
    assert first.result(5) == second.result(5) == failed(one)
    # And after that it would be played again: its outcome may have been lost on the way.
    callers.submit(jobs.play, job(1))
    assert taken(jobs) == job(1)
    jobs.close()


def test_a_simulator_gets_a_job_of_the_task_it_holds(callers):
    jobs = GivenJobs()
    for n, task in ((0, 0), (1, 1), (2, 1)):
        callers.submit(jobs.play, job(n, task))
        deadline = time.monotonic() + 5
        while len(jobs._waiting) <= n and time.monotonic() < deadline:
            time.sleep(0.01)
    assert jobs.take("node-0/0", TaskKey("toy_easy", 1)).episode == 1
    assert jobs.take("node-0/1", None).episode == 0
    assert jobs.take("node-0/2", TaskKey("toy_easy", 0)).episode == 2
    jobs.close()


def test_a_job_that_is_given_back_waits_again(callers):
    jobs = GivenJobs()
    call = callers.submit(jobs.play, job(1))
    one = taken(jobs)
    jobs.give_back(one)
    jobs.give_back(one)
    assert taken(jobs) == one
    assert jobs.take("node-0/0", None) is None
    jobs.ended(failed(one))
    assert call.result(5) == failed(one)
    # Nobody waits for it any more: it is not played for nothing.
    jobs.give_back(one)
    assert jobs.take("node-0/0", None) is None


def test_closing_lets_go_of_all_who_wait(callers):
    jobs = GivenJobs()
    call = callers.submit(jobs.play, job(1))
    taken(jobs)
    waiting = callers.submit(jobs.wait, 30.0)
    threading.Timer(0.05, jobs.close).start()
    assert call.result(5) == NotPlayed()
    assert waiting.result(5) is False
    assert jobs.play(job(2)) == NotPlayed()
    assert jobs.take("node-0/0", None) is None
