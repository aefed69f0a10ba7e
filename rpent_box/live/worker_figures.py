# SPDX-License-Identifier: Apache-2.0
"""What a worker that serves by itself has counted, asked of it whenever somebody wants to know."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rpent_box.client.connecting import ask_figures
from rpent_box.contracts.messages import Figures
from rpent_box.errors import RpentBoxError
from rpent_box.transport.channel import ClientChannel

ASK_S = 2.0
KEPT_S = 1.0
"""Whoever asks more often gets the same again."""


class WorkerFigures:
    """Asks a worker for its figures. Safe from any thread."""

    def __init__(
        self, endpoint: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.endpoint = endpoint
        """None as long as there is no worker; may be set when there is one."""
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._figures: Figures | None = None

    def ask(self) -> Figures | None:
        """Return the worker's figures; None when it does not answer within two seconds."""
        endpoint = self.endpoint
        if endpoint is None:
            return None
        with self._lock:
            if self._asked_at is None or self._clock() - self._asked_at >= KEPT_S:
                self._figures = _figures_of(endpoint)
                # Now, and not before: several who wait for a worker that is mute wait once.
                self._asked_at = self._clock()
            return self._figures


def _figures_of(endpoint: str) -> Figures | None:
    deadline = time.monotonic() + ASK_S
    try:
        with ClientChannel.connect(endpoint, client="metrics", box=None, timeout_s=ASK_S) as line:
            return ask_figures(line, timeout_s=max(0.001, deadline - time.monotonic()))
    except RpentBoxError:
        # It loads, is busy beyond measure, or has ended: `rpent_box_worker_up` says no.
        return None
