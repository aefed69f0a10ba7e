# SPDX-License-Identifier: Apache-2.0
"""Figures over the episodes of a run, and over pairs of episodes of two runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

Z_95 = 1.959963984540054
"""The standard normal quantile of 0.975: a two-sided interval of 95 %."""
LEVEL = 0.05
"""What a probability has to fall below to count as shown."""


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


def total_remarks(episodes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up the steps of each remark, the commonest first."""
    return dict(sum((Counter(remarks) for remarks in episodes), Counter[str]()).most_common())


def median(values: Iterable[float]) -> float | None:
    """Return the middle value, or of two middle ones their mean; None for no values."""
    numbers = sorted(values)
    if not numbers:
        return None
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return an interval that holds the median of what `values` are drawn from: 95 % or more.

    Its ends are two of the values, as far inwards as the binomial distribution allows, whatever
    the values' own one is (W. J. Conover, "Practical Nonparametric Statistics", 3rd edition, 1999,
    section 3.2). None for fewer than six values: then even the smallest and largest say less.
    """
    numbers = sorted(values)
    outside = -1
    for index, tail in enumerate(_lower_tails(len(numbers))):
        if 2 * tail > LEVEL:
            break
        outside = index
    if outside < 0:
        return None
    return numbers[outside], numbers[-1 - outside]


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the two-sided probability of pairs as uneven as these, were both equally good.

    Of pairs with different outcomes, as many should favour either side: a binomial test with 1/2.
    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947), 153-157; the exact form is the sign test. 1 for none.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"{only_first} and {only_second} pairs")
    pairs = only_first + only_second
    tail = sum(math.comb(pairs, count) for count in range(min(only_first, only_second) + 1))
    # Integers divide exactly, however large; floats of 2^pairs end at a thousand pairs.
    return min(1.0, 2 * tail / (1 << pairs))


def paired_difference_interval(
    both: int, only_first: int, only_second: int, neither: int, *, z: float = Z_95
) -> tuple[float, float]:
    """Return an interval of how far the second success rate is above the first, on the same pairs.

    R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions
    based on paired data", Statistics in Medicine 17 (1998), 2635-2650, method 10: the Wilson
    intervals of both rates, squared and added with the correlation of the outcomes. Within
    [-1, 1]; (-1, 1) for no pair.
    """
    pairs = both + only_first + only_second + neither
    if pairs == 0:
        return -1.0, 1.0
    first, second = both + only_first, both + only_second
    low_1, high_1 = wilson_interval(first, pairs, z=z)
    low_2, high_2 = wilson_interval(second, pairs, z=z)
    down_1, up_1 = first / pairs - low_1, high_1 - first / pairs
    down_2, up_2 = second / pairs - low_2, high_2 - second / pairs
    phi = _corrected_phi(both, only_first, only_second, neither)
    below = math.sqrt(max(0.0, down_2**2 - 2 * phi * down_2 * up_1 + up_1**2))
    above = math.sqrt(max(0.0, up_2**2 - 2 * phi * up_2 * down_1 + down_1**2))
    difference = (only_second - only_first) / pairs
    return max(-1.0, difference - below), min(1.0, difference + above)


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return each of `probabilities` corrected for there being so many, in the same order.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70: what is below a level then is wrong at most that often in all.
    """
    order = sorted(range(len(probabilities)), key=lambda index: probabilities[index])
    scaled = [(len(order) - rank) * probabilities[index] for rank, index in enumerate(order)]
    corrected = [0.0] * len(order)
    for index, value in zip(order, accumulate(scaled, max), strict=True):
        corrected[index] = min(1.0, value)
    return corrected


def _corrected_phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    """Return the correlation of paired outcomes, as Newcombe's method 10 shrinks it."""
    pairs = both + only_first + only_second + neither
    sizes = (both + only_first) * (only_second + neither)
    sizes *= (both + only_second) * (only_first + neither)
    if sizes == 0:
        return 0.0
    # Products of counts, in exact integers; half the pairs is the correction for continuity.
    excess = both * neither - only_first * only_second
    if excess > 0:
        return max(excess - pairs / 2, 0.0) / math.sqrt(sizes)
    return excess / math.sqrt(sizes)


def _lower_tails(trials: int) -> Iterable[float]:
    """Yield P(X ≤ 0), P(X ≤ 1), … of `trials` throws of a fair coin."""
    total = 0
    for count in range(trials + 1):
        total += math.comb(trials, count)
        yield total / (1 << trials)
