# SPDX-License-Identifier: Apache-2.0
"""Simulators and models that differ in what decides about batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from batching_simulation import Workload

Pause: TypeAlias = Callable[[random.Random], float]


def steady(mean_s: float, spread: float) -> Pause:
    """Chunks that all take about as long."""
    return lambda rng: mean_s * max(0.2, rng.gauss(1.0, spread))


def heavy(mean_s: float) -> Pause:
    """One chunk in ten takes two to ten times as long: a contact, an episode's end."""

    def pause(rng: random.Random) -> float:
        factor = rng.uniform(2.0, 10.0) if rng.random() < 0.1 else 1.0
        return mean_s * factor * max(0.2, rng.gauss(1.0, 0.05))

    return pause


def memoryless(mean_s: float) -> Pause:
    """Nothing can be foreseen."""
    return lambda rng: rng.expovariate(1.0 / mean_s)


MODELS = {
    "batch free": (0.100, 0.002),
    "half free": (0.030, 0.010),
    "even": (0.010, 0.010),
    "small, free": (0.008, 0.0005),
    "no gain": (0.0004, 0.003),
}
"""Name → what an inference costs, and each observation in it, in seconds. The first is like a large
model on a GPU, the last like mini-wam on a CPU."""

PAUSES: dict[str, Pause] = {
    "metronome": steady(0.2, 0.001),
    "steady": steady(0.2, 0.05),
    "jittered": steady(0.2, 0.3),
    "slow": steady(1.0, 0.05),
    "quick": steady(0.03, 0.05),
    "heavy tail": heavy(0.2),
    "memoryless": memoryless(0.3),
}
"""Name → how long a simulator takes from an answer to its next question."""


def workloads(clients: Sequence[int]) -> Iterator[Workload]:
    """Yield every model with every kind of simulator, so many of them at once."""
    for model, (fixed_s, each_s) in MODELS.items():
        for count in clients:
            for pause, draw in PAUSES.items():
                yield Workload(
                    name=f"{model}, {count} {pause}",
                    clients=count,
                    pause=draw,
                    fixed_s=fixed_s,
                    each_s=each_s,
                )
