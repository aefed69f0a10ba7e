# SPDX-License-Identifier: Apache-2.0
"""The queue between the two threads: one lane per connection, served in turn, batched.

Order holds within a lane, so that a reset stays between the predictions it separates. A batch takes
at most one prediction per lane, so that a connection that asks a lot cannot crowd out the others.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import chain

from rpent_box.errors import WorkerBusy
from rpent_box.worker.work import Errand, Prediction, Work

_RECENT_S = 10.0
"""A connection that predicted within this time is expected to predict again."""

_POLL_S = 1.0

LANE = 8
"""Unanswered requests per connection. A client asks one at a time; those that it gave up on are
gone at their deadline, so only one that floods the worker's memory gets here."""


class WorkQueue:
    """Filled by the receiving thread, emptied by the inferring thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lanes: dict[bytes, deque[Work]] = {}
        """Only lanes that hold something, the next to be served first."""
        self._predicted: dict[bytes, float] = {}
        self._in_flight: list[Work] = []
        self._stopped = False

    def require_room(self, connection: bytes) -> None:
        """Raise `WorkerBusy` when `connection` has as many unanswered requests as it may have."""
        with self._changed:
            waiting = len(self._lanes.get(connection, ()))
        if waiting >= LANE:
            raise WorkerBusy(
                f"this connection has {waiting} requests that wait for the model; at most {LANE}",
                hint="Wait for an answer before asking again.",
            )

    def put(self, work: Work) -> None:
        """Append `work` to its connection's lane, which `require_room` has looked at."""
        with self._changed:
            self._lanes.setdefault(work.connection, deque()).append(work)
            if isinstance(work, Prediction):
                self._predicted[work.connection] = work.received
            self._changed.notify()

    def take(self, max_batch: int, max_wait_s: float) -> list[Work]:
        """Return one errand, or a batch of predictions; empty once the queue is stopped.

        What was taken counts as in flight until `finish`.
        """
        with self._changed:
            while not self._lanes and not self._stopped:
                self._changed.wait(_POLL_S)
            if self._stopped:
                return []
            first = self._pop(next(iter(self._lanes)))
            self._in_flight = [first]
            if isinstance(first, Errand) or max_batch == 1:
                return [first]
            return self._gather(first, max_batch, first.received + max_wait_s)

    def finish(self) -> None:
        """What was taken has been answered."""
        with self._changed:
            self._in_flight = []

    def take_expired(self, now: float) -> list[Prediction]:
        """Remove and return the predictions whose deadline has passed."""
        return self._remove(lambda prediction: prediction.deadline <= now)

    def take_all(self) -> list[Work]:
        """Remove everything that waits; return it and what is in flight, for the last words."""
        with self._changed:
            everything = [*self._in_flight, *chain.from_iterable(self._lanes.values())]
            self._lanes.clear()
        return everything

    def forget(self, connection: bytes) -> None:
        """Drop the predictions of a connection that has ended. Its errands stay."""
        self._remove(lambda prediction: prediction.connection == connection)
        with self._changed:
            self._predicted.pop(connection, None)

    def stop(self) -> None:
        """Make `take` return empty."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def counts(self) -> tuple[int, int]:
        """Return how much waits and how much is in flight, read at one instant."""
        with self._changed:
            return sum(len(lane) for lane in self._lanes.values()), len(self._in_flight)

    def holds(self, connection: bytes) -> bool:
        """Tell whether something of `connection` waits or is in flight."""
        with self._changed:
            return connection in self._lanes or any(
                work.connection == connection for work in self._in_flight
            )

    def _gather(self, first: Work, max_batch: int, until: float) -> list[Work]:
        batch = [first]
        while not self._stopped:
            self._fill(batch, max_batch)
            wait_s = until - time.monotonic()
            if len(batch) >= min(max_batch, self._expected()) or wait_s <= 0:
                break
            self._changed.wait(wait_s)
        return batch

    def _fill(self, batch: list[Work], max_batch: int) -> None:
        taken = {work.connection for work in batch}
        for connection in list(self._lanes):
            if len(batch) == max_batch:
                break
            if connection not in taken and isinstance(self._lanes[connection][0], Prediction):
                batch.append(self._pop(connection))
        self._in_flight = list(batch)

    def _expected(self) -> int:
        """How many connections are worth waiting for."""
        recent = time.monotonic() - _RECENT_S
        return sum(1 for last in self._predicted.values() if last > recent)

    def _pop(self, connection: bytes) -> Work:
        """Take the lane's first item and send the lane to the back of the line."""
        lane = self._lanes.pop(connection)
        work = lane.popleft()
        if lane:
            self._lanes[connection] = lane
        return work

    def _remove(self, unwanted: Callable[[Prediction], bool]) -> list[Prediction]:
        removed: list[Prediction] = []
        with self._changed:
            for connection, lane in list(self._lanes.items()):
                kept: deque[Work] = deque()
                for work in lane:
                    if isinstance(work, Prediction) and unwanted(work):
                        removed.append(work)
                    else:
                        kept.append(work)
                if kept:
                    self._lanes[connection] = kept
                else:
                    del self._lanes[connection]
        return removed
