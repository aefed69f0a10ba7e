# SPDX-License-Identifier: Apache-2.0
"""The state of a worker, as healthz tells it. Written by both threads."""

from __future__ import annotations

import logging
import threading
import time

from rpent_box.contracts.messages import Health, State
from rpent_box.version import PROTOCOL_VERSION

_ORDER: tuple[State, ...] = ("starting", "loading", "warming", "ready", "draining", "failed")

_log = logging.getLogger("rpent_box.worker")


class Status:
    """State and phase. A state only moves forward: a late `ready` ends no drain."""

    def __init__(self, backend: str) -> None:
        self._lock = threading.Lock()
        self._backend = backend
        self._state: State = "starting"
        self._reason = ""
        self._detail = ""
        self._started = time.monotonic()

    @property
    def state(self) -> State:
        return self._state

    @property
    def reason(self) -> str:
        """Why it failed, or which phase of loading this is."""
        return self._reason

    @property
    def detail(self) -> str:
        """The traceback of a failed load."""
        return self._detail

    def become(self, state: State, *, reason: str = "", detail: str = "") -> bool:
        """Move forward to `state`; False when the worker is already past it."""
        with self._lock:
            if _ORDER.index(state) <= _ORDER.index(self._state):
                return False
            self._state, self._reason, self._detail = state, reason, detail
        _log.info("%s%s", state, f": {reason}" if reason else "")
        return True

    def say(self, phase: str) -> None:
        """Set the phase that `loading` and `warming` report."""
        with self._lock:
            if self._state in ("loading", "warming"):
                self._reason = phase
        _log.info("%s: %s", self._state, phase)

    def health(self, *, queued: int, in_flight: int, sessions: int) -> Health:
        """Return what healthz answers."""
        with self._lock:
            return Health(
                state=self._state,
                reason=self._reason,
                detail=self._detail,
                backend=self._backend,
                protocol=PROTOCOL_VERSION,
                queued=queued,
                in_flight=in_flight,
                sessions=sessions,
                uptime_s=time.monotonic() - self._started,
            )
