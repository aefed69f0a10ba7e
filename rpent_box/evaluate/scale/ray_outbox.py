# SPDX-License-Identifier: Apache-2.0
"""Events of one machine of a cluster, kept until the driver has them."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from rpent_box.evaluate.scale.events import Event, Moved, PlaceTold, WorkerTold

MOST = 10_000
"""Events that are kept. Beyond, the oldest go: the driver has been away for hours."""


class _Numbered(NamedTuple):
    number: int
    event: Event


class Outbox:
    """Numbers events and keeps each until its number has come back. Safe from any thread.

    Of what is only of use while it is new (where an episode stands, counters) the last is kept, so
    that a driver that asks seldom is not flooded.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._kept: list[_Numbered] = []
        self._number = 0
        self._awake = False

    def put(self, event: Event) -> None:
        """Add `event`. Never waits."""
        with self._changed:
            self._number += 1
            subject = _subject(event)
            if subject is not None:
                self._kept = [one for one in self._kept if _subject(one.event) != subject]
            self._kept.append(_Numbered(self._number, event))
            del self._kept[:-MOST]
            self._changed.notify_all()

    def wake(self) -> None:
        """Make `after` return at once, now and later: nothing more will come."""
        with self._changed:
            self._awake = True
            self._changed.notify_all()

    def after(self, number: int, wait_s: float) -> tuple[int, tuple[Event, ...]]:
        """Forget what the driver has, up to `number`; return the last number and the rest.

        Waits up to `wait_s` for something to come.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            self._kept = [one for one in self._kept if one.number > number]
            while not self._kept and not self._awake:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            return self._number, tuple(one.event for one in self._kept)


def _subject(event: Event) -> tuple[str, str] | None:
    """Return what `event` replaces the last word on; None: each of its kind counts."""
    match event:
        case Moved():
            return "moved", event.simulator
        case WorkerTold():
            return "worker", event.place
        case PlaceTold():
            return "place", event.place.name
        case _:
            return None
