# SPDX-License-Identifier: Apache-2.0
"""A worker that many simulators look after at once, and programs that also heed a call to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rpent_box.evaluate.starting import Programs
from rpent_box.launch.box import Box
from rpent_box.launch.program import ExitStatus, Launcher, Program, Running
from rpent_box.launch.records import ProgramRecord

LOOK_EVERY_S = 0.1


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """Playing is to end now. Not an error: it unwinds a simulator's thread."""


class SharedRunning:
    """A program that any thread may ask after; an engine is asked ten times a second at most."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._lock = threading.Lock()
        self._looked = -LOOK_EVERY_S
        self._status: ExitStatus | None = None

    @property
    def program(self) -> Program:
        return self._running.program

    @property
    def identifier(self) -> str:
        return self._running.identifier

    def describe(self) -> str:
        return self._running.describe()

    def process_id(self) -> int | None:
        with self._lock:
            return self._running.process_id()

    def record(self) -> ProgramRecord:
        return self._running.record()

    def exit_status(self) -> ExitStatus | None:
        """Return how it ended, or None while it ran a tenth of a second ago."""
        with self._lock:
            if self._status is None and time.monotonic() - self._looked >= LOOK_EVERY_S:
                self._status = self._running.exit_status()
                self._looked = time.monotonic()
            return self._status

    def last_log_lines(self, count: int = 20) -> str:
        with self._lock:
            return self._running.last_log_lines(count)

    def stop(self, *, grace_s: float) -> None:
        self._running.stop(grace_s=grace_s)


class HeedingPrograms(Programs):
    """A worker and a simulator, whose `watch` also raises when playing is to end."""

    def __init__(
        self, launcher: Launcher, box: Box, worker: Running | None, go_on: Callable[[], None]
    ) -> None:
        """`go_on` raises `Stopped` when it is time."""
        super().__init__(launcher, box, worker)
        self._go_on = go_on

    def start_simulator(self, program: Program) -> None:
        """Start a simulator, unless playing is to end: to end the last one may have taken long."""
        self._go_on()
        super().start_simulator(program)

    def watch(self) -> None:
        """Raise `Stopped`, or `ProgramDied` when one of them has ended."""
        self._go_on()
        super().watch()
