# SPDX-License-Identifier: Apache-2.0
"""Counting values by size, and writing such counts as Prometheus wants them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from rpent_box.contracts.messages import Histogram

BATCH_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Tally:
    """A histogram that values are added to."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are inclusive upper ones, rising."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._total += value * times

    def histogram(self) -> Histogram:
        return Histogram(bounds=self._bounds, counts=tuple(self._counts), total=self._total)


def of_batches(batches: Mapping[int, int]) -> Histogram:
    """Return how large the batches were, from batch size → how often."""
    tally = Tally(BATCH_BOUNDS)
    for size, times in batches.items():
        tally.add(float(size), times)
    return tally.histogram()


def cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Return what Prometheus wants: each bound, last `+Inf`, with the count of all up to it."""
    names = [_number(bound) for bound in histogram.bounds]
    counts = histogram.counts[: len(names)]
    seen = 0
    buckets: list[tuple[str, float]] = []
    for name, count in zip(names, counts, strict=False):
        seen += count
        buckets.append((name, float(seen)))
    buckets.append(("+Inf", float(sum(histogram.counts))))
    return buckets


def _number(bound: float) -> str:
    """Return `bound` as Prometheus' own clients write it: `0.005`, `1.0`."""
    return repr(float(bound))
