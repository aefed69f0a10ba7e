# SPDX-License-Identifier: Apache-2.0
"""What a worker counts since its model was ready, as `Figures` tells it. From both threads."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from rpent_box.contracts.messages import Figures, Histogram

Turn: TypeAlias = Literal["busy", "gathering", "idle"]
"""What the inferring thread is about; always exactly one of them."""

BOUNDS_S = tuple(
    round(step * decade, 6) for decade in (1e-3, 1e-2, 0.1, 1.0, 10.0) for step in (0.5, 1, 2)
) + (50.0, 100.0)
"""0.5 ms to 100 s, about three per decade: a network on a CPU, and a service under load."""


class Bins:
    """A histogram that grows."""

    def __init__(self, bounds: tuple[float, ...] = BOUNDS_S) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def histogram(self) -> Histogram | None:
        """Return what was added; None when nothing was."""
        if not any(self._counts):
            return None
        return Histogram(bounds=self._bounds, counts=tuple(self._counts), total=self._total)


class Tally:
    """Counters and one stopwatch. Counts nothing before `start`; all times are in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._turn: Turn | None = None
        self._since = 0.0
        self._spent: dict[Turn, float] = {"busy": 0.0, "gathering": 0.0, "idle": 0.0}
        self._served = 0
        self._refused = 0
        self._batches: Counter[int] = Counter()
        self._infer = Bins()
        self._queue = Bins()

    def start(self) -> None:
        """The model is ready."""
        with self._lock:
            self._turn, self._since = "idle", self._clock()

    def enter(self, turn: Turn) -> None:
        """From now on the inferring thread does this."""
        with self._lock:
            self._settle()
            if self._turn is not None:
                self._turn = turn

    def inferred(self, seconds: float, queued_s: Sequence[float]) -> None:
        """One inference took `seconds`; its observations had waited for `queued_s` each."""
        with self._lock:
            self._batches[len(queued_s)] += 1
            self._infer.add(seconds)
            for waited in queued_s:
                self._queue.add(waited)

    def answered(self, *, served: int = 0, refused: int = 0) -> None:
        """So many predictions were answered with a chunk, and so many with a fault."""
        with self._lock:
            self._served += served
            self._refused += refused

    def figures(self, *, max_batch: int, max_wait_s: float, tuned: bool) -> Figures:
        """Return everything as of now; the three turns add up to the whole."""
        with self._lock:
            self._settle()
            return Figures(
                ready_s=sum(self._spent.values()),
                busy_s=self._spent["busy"],
                gathering_s=self._spent["gathering"],
                idle_s=self._spent["idle"],
                served=self._served,
                refused=self._refused,
                batches=dict(sorted(self._batches.items())),
                infer_s=self._infer.histogram(),
                queue_s=self._queue.histogram(),
                max_batch=max_batch,
                max_wait_ms=1000 * max_wait_s,
                tuned=tuned,
            )

    def _settle(self) -> None:
        """Credit the time since the last look to the present turn."""
        now = self._clock()
        if self._turn is not None:
            self._spent[self._turn] += now - self._since
        self._since = now
