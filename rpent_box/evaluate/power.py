# SPDX-License-Identifier: Apache-2.0
"""How large a difference a number of paired episodes would have shown."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rpent_box.evaluate.statistics import LEVEL

POWER = 0.8
"""The customary chance with which a test should show what is there."""

_NEGLIGIBLE = 1e-9
_STEPS = 24
"""Of halving: to a tenth of a millionth."""


def detectable_difference(
    pairs: int, discordant: float, *, power: float = POWER, level: float = LEVEL
) -> float | None:
    """Return which difference of two success rates the exact McNemar test shows with `power`.

    `discordant` is the share of pairs with different outcomes, in [0, 1]; where the difference
    needs a larger one, that is taken, all in one direction. None: these pairs could not have shown
    any difference so reliably.
    """
    if pairs < 1 or shown_with(pairs, 1.0, 1.0, level=level) < power:
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if shown_with(pairs, max(discordant, middle), middle, level=level) < power:
            low = middle
        else:
            high = middle
    return high


def shown_with(pairs: int, discordant: float, difference: float, *, level: float = LEVEL) -> float:
    """Return the chance that the exact McNemar test shows `difference` at `level`.

    Of `pairs`, each differs with the chance `discordant`, and then in the better one's favour with
    (1 + difference/discordant)/2.
    """
    favour = (1 + difference / discordant) / 2 if discordant else 0.5
    logs = _log_factorials(pairs)
    chances = _binomial(pairs, discordant, logs)
    return math.fsum(
        float(chance) * _refused(count, favour, logs, level)
        for count, chance in enumerate(chances)
        if chance > _NEGLIGIBLE
    )


def _refused(count: int, favour: float, logs: NDArray[np.float64], level: float) -> float:
    """Return the chance that the test rejects `count` differing pairs being even."""
    tails = np.cumsum(_binomial(count, 0.5, logs))
    rejected = int(np.searchsorted(2 * tails, level, side="right"))
    outcomes = _binomial(count, favour, logs)
    upper = outcomes[len(outcomes) - rejected :] if rejected else outcomes[:0]
    return float(outcomes[:rejected].sum() + upper.sum())


def _binomial(trials: int, chance: float, logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of 0, 1, …, `trials` successes: float64 [trials + 1]."""
    if chance in (0.0, 1.0):
        certain = np.zeros(trials + 1)
        certain[trials if chance else 0] = 1.0
        return certain
    counts = np.arange(trials + 1)
    ways = logs[trials] - logs[counts] - logs[trials - counts]
    weights = ways + counts * math.log(chance) + (trials - counts) * math.log1p(-chance)
    return np.asarray(np.exp(weights), dtype=np.float64)


def _log_factorials(largest: int) -> NDArray[np.float64]:
    """Return log(0!), …, log(largest!): float64 [largest + 1]."""
    logs = np.zeros(largest + 1)
    logs[1:] = np.cumsum(np.log(np.arange(1, largest + 1)))
    return logs
