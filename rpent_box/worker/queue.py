# SPDX-License-Identifier: Apache-2.0
"""The queue between the two threads: one lane per connection, served in turn, batched.

Order holds within a lane, so that a reset stays between the predictions it separates. A batch takes
at most one prediction per lane, so that a connection that asks a lot cannot crowd out the others.
A batch that is held open for company stays in its lanes, so that what expires meanwhile is answered
in time; errands of others are run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import chain

from rpent_box.errors import WorkerBusy
from rpent_box.worker.gathering import FixedGathering, Gathering
from rpent_box.worker.tally import Turn
from rpent_box.worker.work import Errand, Prediction, Work

_POLL_S = 1.0

LANE = 8
"""Unanswered requests per connection. A client asks one at a time; those that it gave up on are
gone at their deadline, so only one that floods the worker's memory gets here."""


class WorkQueue:
    """Filled by the receiving thread, emptied by the inferring thread."""

    def __init__(
        self,
        gathering: Gathering | None = None,
        *,
        enter: Callable[[Turn], None] = lambda _: None,
    ) -> None:
        """`gathering` says how long a batch is held open (None: never); `enter` is told whether the
        taker waits for work or for company."""
        self._gathering = gathering or FixedGathering(0.0)
        self._enter = enter
        self._changed = threading.Condition()
        self._lanes: dict[bytes, deque[Work]] = {}
        """Only lanes that hold something, the next to be served first."""
        self._in_flight: list[Work] = []
        self._held_since: float | None = None
        """When the batch that waits for company was first held; None: none does."""
        self._last_ones = False
        """Nobody new comes, so no batch waits for company."""
        self._stopped = False

    @property
    def tuned(self) -> bool:
        """Whether measured times say how long a batch is held open."""
        return self._gathering.tuned

    @property
    def wait_s(self) -> float:
        """The longest that a batch is held open at present."""
        with self._changed:
            return self._gathering.wait_s

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
                self._gathering.asked(work.connection, work.received)
            else:
                self._gathering.interrupted(work.connection)
            self._changed.notify()

    def take(self, max_batch: int) -> list[Work]:
        """Return one errand, or a batch of predictions; empty once the queue is stopped.

        What was taken counts as in flight until `finish`.
        """
        with self._changed:
            while not self._stopped:
                connections, until = self._next(max_batch)
                if until is None:
                    self._in_flight = [self._pop(connection) for connection in connections]
                    if isinstance(self._in_flight[0], Prediction):
                        self._held_since = None
                    return self._in_flight
                self._enter("gathering" if connections else "idle")
                self._changed.wait(min(_POLL_S, until - time.monotonic()))
            return []

    def finish(self) -> None:
        """What was taken has been answered."""
        now = time.monotonic()
        with self._changed:
            for work in self._in_flight:
                lane = self._lanes.pop(work.connection, None)
                if lane is not None:
                    # Behind whoever asked meanwhile: a flood costs others the batch under way.
                    self._lanes[work.connection] = lane
                elif isinstance(work, Prediction):
                    self._gathering.answered(work.connection, now)
            self._in_flight = []

    def inferred(self, size: int, seconds: float) -> None:
        """An inference of `size` observations took `seconds`."""
        with self._changed:
            self._gathering.inferred(size, seconds)

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
            self._gathering.forget(connection)
            self._changed.notify()

    def expect_no_more(self) -> None:
        """Hold no batch open from now on: the worker takes no new predictions."""
        with self._changed:
            self._last_ones = True
            self._changed.notify()

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

    def _next(self, max_batch: int) -> tuple[list[bytes], float | None]:
        """Return the lanes to serve and until when to wait for more first; None: serve them now."""
        now = time.monotonic()
        lanes = list(self._lanes)
        if not lanes:
            self._held_since = None
            return [], now + _POLL_S
        if isinstance(self._lanes[lanes[0]][0], Errand):
            return lanes[:1], None
        heads = [self._lanes[lane][0] for lane in lanes]
        batch = [work for work in heads if isinstance(work, Prediction)][:max_batch]
        connections = [work.connection for work in batch]
        room = max_batch - len(batch)
        if self._last_ones or not room:
            return connections, None
        since = now if self._held_since is None else self._held_since
        until = self._gathering.hold_until(now, batch, room=room, since=since)
        if until <= now:
            return connections, None
        self._held_since = since
        errands = [work.connection for work in heads if isinstance(work, Errand)]
        # Whoever resets is about to ask: it must not wait until those who wait for it give up.
        return (errands[:1], None) if errands else (connections, until)

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
            self._changed.notify()  # perhaps what was held open is gone
        return removed
