# SPDX-License-Identifier: Apache-2.0
"""When each connection is expected to ask again: it simulates its chunk first.

A connection's own last pauses between an answer and the next question are its forecast. One that
is still out after all of them is not expected any more, nor is one that has begun an episode anew.
"""

from __future__ import annotations

from collections import deque

_KEPT = 8
"""Pauses of one connection that count, the last ones."""


class _Client:
    def __init__(self) -> None:
        self.pauses: deque[float] = deque(maxlen=_KEPT)
        self.answered: float | None = None
        """When it got its answer; None: it waits for one, or nothing is known about its return."""


class Returns:
    """All connections. Times are in seconds, on the caller's clock."""

    def __init__(self) -> None:
        self._clients: dict[bytes, _Client] = {}

    def asked(self, connection: bytes, now: float) -> None:
        """It sent an observation."""
        client = self._clients.setdefault(connection, _Client())
        if client.answered is not None:
            client.pauses.append(now - client.answered)
        client.answered = None

    def answered(self, connection: bytes, now: float) -> None:
        """It got its answer and has no other question here."""
        client = self._clients.get(connection)
        if client is not None:
            client.answered = now

    def interrupted(self, connection: bytes) -> None:
        """It is about something else, such as a reset: this pause is not like the others."""
        client = self._clients.get(connection)
        if client is not None:
            client.answered = None

    def forget(self, connection: bytes) -> None:
        """It has ended."""
        self._clients.pop(connection, None)

    def expected(self, now: float, within_s: float) -> list[tuple[float, float]]:
        """Return (seconds from now, how likely then) of returns within `within_s`, the next first.

        A pause longer than any known one stays possible, and counts as much as each of them.
        """
        coming = []
        for client in self._clients.values():
            if client.answered is None:
                continue
            out_s = now - client.answered
            left = [pause - out_s for pause in client.pauses if pause > out_s]
            likely = 1.0 / (len(left) + 1)
            coming += [(after_s, likely) for after_s in left if after_s <= within_s]
        return sorted(coming)
