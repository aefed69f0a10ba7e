# SPDX-License-Identifier: Apache-2.0
"""What an inference costs, learned while it goes: a fixed part, and a part per observation.

    t(b) ≈ fixed + each · b

The fixed part is what company saves: kernel launches, reading the weights, a service's round trip.
Batches of each size count by their median (of an even number by the lower one), and a size from its
second batch on, so that neither a first, slow one nor a pause of the machine moves the line. The
fixed part is never more than the quickest size takes, so that a size which was slow and is not seen
any more holds nobody up. As long as only one size counts, all of its time passes for fixed: where
nobody ever waits for company, that is how two sizes come to be measured.
"""

from __future__ import annotations

from collections import deque
from statistics import median_low

_KEPT = 15
"""Batches of one size that count, the last ones."""
_COUNTS_FROM = 2


class InferenceCost:
    """The line through what was measured. All times are in seconds."""

    def __init__(self) -> None:
        self._seconds: dict[int, deque[float]] = {}
        self._points: dict[int, tuple[float, int]] = {}
        """Size → the median, and of how many."""
        self._line: tuple[float, float] | None = None

    def add(self, size: int, seconds: float) -> None:
        """An inference of `size` observations took `seconds`."""
        kept = self._seconds.setdefault(size, deque(maxlen=_KEPT))
        kept.append(seconds)
        if len(kept) >= _COUNTS_FROM:
            self._points[size] = median_low(kept), len(kept)
            self._line = None

    @property
    def fixed_s(self) -> float:
        """What one inference less would save."""
        return self._fitted()[0]

    @property
    def each_s(self) -> float:
        """What one observation more costs."""
        return self._fitted()[1]

    def of(self, size: int) -> float:
        """Return what a batch of `size` is expected to take; 0 when nothing was measured."""
        fixed_s, each_s = self._fitted()
        return fixed_s + each_s * size

    def _fitted(self) -> tuple[float, float]:
        if self._line is None:
            self._line = _line_through(
                [(size, seconds, times) for size, (seconds, times) in self._points.items()]
            )
        return self._line


def _line_through(points: list[tuple[int, float, int]]) -> tuple[float, float]:
    """Return (fixed, each) by weighted least squares, neither below zero nor above the points."""
    if not points:
        return 0.0, 0.0
    weight = sum(w for _, _, w in points)
    size = sum(w * x for x, _, w in points) / weight
    seconds = sum(w * y for _, y, w in points) / weight
    spread = sum(w * (x - size) ** 2 for x, _, w in points)
    if spread == 0.0:
        return seconds, 0.0
    each = sum(w * (x - size) * (y - seconds) for x, y, w in points) / spread
    each = min(max(0.0, each), seconds / size)
    quickest = min(y for _, y, _ in points)
    return max(0.0, min(seconds - each * size, quickest)), each
