# SPDX-License-Identifier: Apache-2.0
"""How fast episodes come: just now, over a whole sitting, and as a curve of bounded length."""

from __future__ import annotations

from collections import deque

WINDOW_S = 300.0
SLICE_S = 5.0
ENOUGH = 5
"""Episodes within the window from which its rate counts; fewer say little."""
POINTS = 96


class Pace:
    """Episodes per minute since the first simulator began to play."""

    def __init__(self) -> None:
        self.recent = RecentRate()
        self.curve = Curve()
        self.count = 0
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """A simulator plays; only the first one counts."""
        if self._since is None:
            self._since = now

    def add(self, now: float) -> None:
        """An episode has its result."""
        self.begin(now)
        self.count += 1
        self.recent.add(self.elapsed_s(now))
        self.curve.add(self.elapsed_s(now))

    def elapsed_s(self, now: float) -> float:
        return 0.0 if self._since is None else max(0.0, now - self._since)

    def overall(self, now: float) -> float | None:
        """Return episodes per minute over all of the time; None before the first one."""
        elapsed_s = self.elapsed_s(now)
        return 60.0 * self.count / elapsed_s if self.count and elapsed_s > 0 else None


class RecentRate:
    """Counts what happened in the last minutes, in slices of time, however much that is."""

    def __init__(self, *, window_s: float = WINDOW_S, slice_s: float = SLICE_S) -> None:
        self._window_s = window_s
        self._slice_s = slice_s
        self._slices: deque[tuple[int, int]] = deque()
        """Number of the slice → how many; only slices in which something happened."""

    def add(self, at_s: float) -> None:
        number = int(at_s // self._slice_s)
        if self._slices and self._slices[-1][0] == number:
            self._slices[-1] = (number, self._slices[-1][1] + 1)
        else:
            self._slices.append((number, 1))
        self._forget(at_s)

    def per_minute(self, now_s: float) -> float | None:
        """Return the rate over the window, or over the time since 0; None: too few to tell."""
        self._forget(now_s)
        count = sum(count for _, count in self._slices)
        if count < ENOUGH:
            return None
        return 60.0 * count / min(self._window_s, max(now_s, self._slice_s))

    def _forget(self, now_s: float) -> None:
        first = int((now_s - self._window_s) // self._slice_s) + 1
        while self._slices and self._slices[0][0] < first:
            self._slices.popleft()


class Curve:
    """Counts per stretch of time since 0; stretches double in length when they become too many."""

    def __init__(self, *, points: int = POINTS, stretch_s: float = SLICE_S) -> None:
        self._points = points
        self._counts: list[int] = []
        self.stretch_s = stretch_s

    def add(self, at_s: float) -> None:
        self._reach(at_s)
        self._counts[int(at_s // self.stretch_s)] += 1

    def per_minute(self, now_s: float) -> tuple[float, ...]:
        """Return the rate in each stretch that is over; the present one still fills."""
        self._reach(now_s)
        return tuple(60.0 * count / self.stretch_s for count in self._counts[:-1])

    def _reach(self, at_s: float) -> None:
        while at_s // self.stretch_s >= self._points:
            starts = range(0, len(self._counts), 2)
            self._counts = [sum(self._counts[first : first + 2]) for first in starts]
            self.stretch_s *= 2
        self._counts += [0] * (int(at_s // self.stretch_s) + 1 - len(self._counts))
