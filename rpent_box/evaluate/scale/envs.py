# SPDX-License-Identifier: Apache-2.0
"""How many simulators a machine should play on: at first by its size, then by what was measured."""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

GIB = 1 << 30
GUESSED_MEMORY = 2 * GIB
"""Of one simulator, before any was measured: more than the known ones need for most scenes."""
KEPT_SHARE = 0.1
"""Of the free memory, that stays free: scenes differ, and page caches are worth having."""
MARGIN = 0.25
"""Of what a simulator takes, that it may take besides in scenes to come. What the kernel ends when
memory runs out may be the worker, or the evaluation itself."""
BUSY = 0.95
"""A worker that is inside its model for this share of the time has no room for more."""
FULL = 0.9
"""Batches that are as full as this on average gain nothing from more simulators."""
SLIGHTEST_CPU = 0.02
"""Cores that even a simulator that only waits may need at times."""
WORTH = 1.05
"""An addition that brought less than this was the last one."""
MOST_AUTO = 128


class Choice(NamedTuple):
    """How many simulators, and why not more, as a sentence for people."""

    envs: int
    why: str


class Machine(Struct, frozen=True, kw_only=True):
    """What a machine has to give."""

    cores: float
    """That this process may use: less than it sees, where a quota says so."""
    memory: int
    """Bytes that are free now, without what is kept in memory only because it is there."""


class Measured(Struct, frozen=True, kw_only=True):
    """What simulators and their worker did over some time in which `envs` played."""

    envs: int
    simulator_cpu: float
    """CPU seconds per second of one simulator, on average."""
    simulator_memory: int
    """Bytes of the largest simulator, with what it shares counted in parts."""
    worker_cpu: float
    """CPU seconds per second of the worker; 0 for one that runs elsewhere."""
    idle_cores: float
    """That nobody on the machine kept busy, others included: who gets no core seems to wait."""
    worker_busy: float
    """Share of the time inside the model, and in what encodes for it and decodes after it."""
    mean_batch: float
    """Observations per inference."""
    max_batch: int
    pace: float
    """Predictions per second."""


def first_envs(
    machine: Machine, *, asked: int | None, jobs: int | None, reserved: int = 0
) -> Choice:
    """Return with how many simulators to begin.

    `asked` is what the user wants, None to choose; `jobs` how many episodes there are, None where
    that is not known; `reserved` the bytes that the worker will take.
    """
    if asked is not None:
        return _at_most(Choice(asked, "asked for"), _by_jobs(jobs))
    cores = max(1, math.floor(machine.cores))
    room = max(0, int(machine.memory * (1 - KEPT_SHARE)) - reserved)
    memory = max(1, room // GUESSED_MEMORY)
    by_cores = Choice(cores, f"one for each of {_cores(machine.cores)} to begin with")
    by_memory = Choice(
        memory, f"{_gib(machine.memory)} of memory are free, about {_gib(GUESSED_MEMORY)} for each"
    )
    return _at_most(by_cores, by_memory, _by_jobs(jobs), Choice(MOST_AUTO, "the most by itself"))


def more_envs(machine: Machine, measured: Measured, *, jobs: int | None) -> Choice:
    """Return how many simulators to go on with, at most twice as many as there are.

    `machine.memory` is what is free beside those that play. `jobs` is how many episodes wait.
    """
    return _at_most(
        Choice(2 * measured.envs, _mostly_wait(measured)),
        _by_worker(measured),
        _by_cpu(machine, measured),
        _by_memory(machine, measured),
        _by_jobs(None if jobs is None else measured.envs + jobs),
        Choice(MOST_AUTO, "the most by itself"),
    )


def was_worth_it(before: Measured, after: Measured) -> bool:
    """Say whether the simulators that were added made the whole quicker."""
    return after.pace >= WORTH * before.pace


def _by_worker(measured: Measured) -> Choice:
    busy, envs = measured.worker_busy, measured.envs
    if measured.max_batch > 1 and measured.mean_batch < FULL * measured.max_batch:
        # How much a fuller batch gains only trying can show: `was_worth_it` looks at that.
        room = math.ceil(envs * measured.max_batch / max(1.0, measured.mean_batch))
        return Choice(
            room,
            f"the worker takes {measured.max_batch} observations at once, and got "
            f"{measured.mean_batch:.1f} on average",
        )
    if busy >= BUSY:
        return Choice(envs, f"the worker is busy {_percent(busy)} of the time")
    wanted = math.ceil(envs * BUSY / max(busy, 0.01))
    return Choice(
        max(envs, wanted), f"the worker was busy {_percent(busy)} of the time with {envs}"
    )


def _by_cpu(machine: Machine, measured: Measured) -> Choice:
    one = max(measured.simulator_cpu, SLIGHTEST_CPU)
    ours = measured.worker_cpu + measured.envs * measured.simulator_cpu
    room = min(machine.cores - ours, measured.idle_cores)
    return Choice(
        measured.envs + max(0, math.floor(room / one)),
        f"{max(0.0, room):.1f} of {_cores(machine.cores)} are free, and each needs {one:.2f}",
    )


def _by_memory(machine: Machine, measured: Measured) -> Choice:
    one = max(1, measured.simulator_memory)
    room = machine.memory * (1 - KEPT_SHARE) - MARGIN * one * measured.envs
    return Choice(
        measured.envs + max(0, int(room / ((1 + MARGIN) * one))),
        f"each takes {_gib(measured.simulator_memory)}, and {_gib(machine.memory)} are free",
    )


def _by_jobs(jobs: int | None) -> Choice:
    if jobs is None:
        return Choice(MOST_AUTO * MOST_AUTO, "")
    return Choice(max(1, jobs), f"one for each of {jobs} episodes" if jobs != 1 else "one episode")


def _mostly_wait(measured: Measured) -> str:
    waits = max(0.0, 1 - measured.simulator_cpu)
    return f"simulators wait {_percent(waits)} of the time; more are added step by step"


def _at_most(*choices: Choice) -> Choice:
    return min(choices, key=lambda choice: choice.envs)


def _cores(cores: float) -> str:
    return "1 core" if cores == 1 else f"{cores:g} cores"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
