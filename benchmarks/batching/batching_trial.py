# SPDX-License-Identifier: Apache-2.0
"""One workload under the tuned rule and under fixed waits, on the counted clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from batching_simulation import Outcome, Simulation, Workload

from rpent_box.worker.gathering import FixedGathering, Gathering, TunedGathering

FIXED_MS = (0, 2, 5, 20)


@dataclass(frozen=True)
class Trial:
    """Means over the seeds."""

    load: Workload
    fixed_hz: dict[int, float]
    """Wait in milliseconds → predictions per second."""
    fixed_p99_s: dict[int, float]
    tuned_hz: float
    tuned_p99_s: float
    tuned_batch: float

    @property
    def of_best(self) -> float:
        """The tuned rule's rate over that of the best fixed wait for this workload."""
        return self.tuned_hz / max(self.fixed_hz.values())

    @property
    def p99_over_best_s(self) -> float:
        """How much longer the slowest hundredth waits than under the best fixed wait for that."""
        return self.tuned_p99_s - min(self.fixed_p99_s.values())


def trial(load: Workload, *, predictions: int, seeds: Sequence[int]) -> Trial:
    """Play `load` under every rule."""

    def played(wait_ms: int | None) -> list[Outcome]:
        return [
            Simulation(load, _rule(wait_ms), seed=seed).run(predictions * load.clients)
            for seed in seeds
        ]

    fixed = {wait_ms: played(wait_ms) for wait_ms in FIXED_MS}
    tuned = played(None)
    return Trial(
        load=load,
        fixed_hz={wait_ms: _rate_hz(outcomes) for wait_ms, outcomes in fixed.items()},
        fixed_p99_s={wait_ms: _p99_s(outcomes) for wait_ms, outcomes in fixed.items()},
        tuned_hz=_rate_hz(tuned),
        tuned_p99_s=_p99_s(tuned),
        tuned_batch=mean(outcome.mean_batch for outcome in tuned),
    )


def _rule(wait_ms: int | None) -> Gathering:
    return TunedGathering() if wait_ms is None else FixedGathering(wait_ms / 1000)


def _rate_hz(outcomes: Sequence[Outcome]) -> float:
    return mean(outcome.rate_hz for outcome in outcomes)


def _p99_s(outcomes: Sequence[Outcome]) -> float:
    return mean(outcome.latency_s(0.99) for outcome in outcomes)
