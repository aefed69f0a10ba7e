# SPDX-License-Identifier: Apache-2.0
"""Figures over the episodes of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

Z_95 = 1.959963984540054
"""The standard normal quantile of 0.975: a two-sided interval of 95 %."""


def wilson_interval(successes: int, trials: int, *, z: float = Z_95) -> tuple[float, float]:
    """Return the score interval of a success rate, within [0, 1]; (0, 1) for no trial.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22 (1927), 209-212:
    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n). It is never empty and never leaves [0, 1],
    unlike p ± z √(p(1-p)/n), which is of width 0 at 50 successes out of 50.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    scale = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / scale
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / scale
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high


def mean(values: Iterable[float]) -> float | None:
    """Return the arithmetic mean, or None for no values."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def total_stages(episodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add up the seconds of each stage, in the order in which the stages first appear."""
    totals: dict[str, float] = {}
    for stages in episodes:
        for name, seconds in stages.items():
            totals[name] = totals.get(name, 0.0) + seconds
    return totals
