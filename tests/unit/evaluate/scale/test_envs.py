# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from rpent_box.evaluate.scale.envs import (
    GIB,
    MOST_AUTO,
    Machine,
    Measured,
    first_envs,
    more_envs,
    was_worth_it,
)

BIG = Machine(cores=16, memory=200 * GIB)
WAITING = Measured(
    envs=4,
    simulator_cpu=0.1,
    simulator_memory=GIB,
    worker_cpu=0.2,
    idle_cores=15.0,
    worker_busy=0.3,
    mean_batch=1.0,
    max_batch=1,
    pace=10.0,
)


def test_what_is_asked_for_is_what_is_played_on_up_to_one_for_each_episode():
    assert first_envs(BIG, asked=40, jobs=100) == (40, "asked for")
    assert first_envs(BIG, asked=40, jobs=3) == (3, "one for each of 3 episodes")


@pytest.mark.parametrize(
    ("machine", "reserved", "envs", "why"),
    [
        (BIG, 0, 16, "one for each of 16 cores"),
        (replace(BIG, cores=1.5), 0, 1, "one for each of 1.5 cores"),
        (replace(BIG, cores=0.5), 0, 1, "0.5 cores"),
        (replace(BIG, memory=10 * GIB), 0, 4, "10.0 GiB of memory are free"),
        (replace(BIG, memory=10 * GIB), 6 * GIB, 1, "10.0 GiB"),
        (replace(BIG, memory=GIB), 0, 1, "1.0 GiB"),
        (Machine(cores=500, memory=10_000 * GIB), 0, MOST_AUTO, "the most"),
    ],
)
def test_at_first_cores_and_memory_decide(machine, reserved, envs, why):
    choice = first_envs(machine, asked=None, jobs=None, reserved=reserved)
    assert choice.envs == envs
    assert why in choice.why


def test_simulators_that_mostly_wait_become_twice_as_many():
    choice = more_envs(BIG, WAITING, jobs=1000)
    assert choice.envs == 8
    assert "wait 90 % of the time" in choice.why


@pytest.mark.parametrize(
    ("changes", "machine", "jobs", "envs", "why"),
    [
        ({"worker_busy": 0.97}, BIG, None, 4, "busy 97 %"),
        ({"worker_busy": 0.8}, BIG, None, 5, "was busy 80 %"),
        ({"simulator_cpu": 0.95, "worker_cpu": 0.2}, Machine(cores=5, memory=BIG.memory), 9, 5, ""),
        ({"simulator_cpu": 0.95}, Machine(cores=4, memory=BIG.memory), None, 4, "each needs 0.95"),
        ({}, Machine(cores=16, memory=4 * GIB), None, 6, "each takes 1.0 GiB"),
        # What there is must also do for what the present ones may take later.
        ({}, Machine(cores=16, memory=2 * GIB), None, 4, "2.0 GiB are free"),
        ({}, Machine(cores=16, memory=0), None, 4, "0.0 GiB are free"),
        ({}, BIG, 0, 4, "4 episodes"),
        ({"worker_busy": 0.99, "max_batch": 8, "mean_batch": 2.0}, BIG, None, 8, "wait 90 %"),
        ({"worker_busy": 0.99, "max_batch": 8, "mean_batch": 7.5}, BIG, None, 4, "busy 99 %"),
        ({"worker_busy": 0.99, "max_batch": 8, "mean_batch": 6.0}, BIG, None, 6, "6.0 on average"),
        ({"idle_cores": 0.05}, BIG, None, 4, "0.1 of 16 cores are free"),
        ({"idle_cores": 0.25}, BIG, None, 6, "0.2 of 16 cores are free, and each needs 0.10"),
        ({"worker_busy": 0.0}, BIG, None, 8, "wait"),
    ],
)
def test_what_binds_first_decides_and_is_named(changes, machine, jobs, envs, why):
    choice = more_envs(machine, replace(WAITING, **changes), jobs=jobs)
    assert choice.envs == envs
    assert why in choice.why


def test_an_addition_that_brought_nothing_was_the_last():
    assert was_worth_it(WAITING, replace(WAITING, envs=8, pace=15.0))
    assert not was_worth_it(WAITING, replace(WAITING, envs=8, pace=10.2))
