# SPDX-License-Identifier: Apache-2.0
"""What plays an evaluation's episodes, and what it is told and tells."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from rpent_box.evaluate.scale.events import Event
from rpent_box.evaluate.scale.plan import Job, TaskKey
from rpent_box.evaluate.scale.schedule import Schedule

Tell: TypeAlias = Callable[[Event], None]
"""Hands an event to the thread that writes. From any thread; never waits."""


class Source(Protocol):
    """Where the simulators of one place get their jobs. Safe from any thread.

    A `Schedule` is one.
    """

    def take(self, simulator: str, holding: TaskKey | None) -> Job | None:
        """Return a job for `simulator`, which keeps the scene of `holding`; None: not now."""

    def give_back(self, job: Job) -> None:
        """`job` was not played to its end: somebody else may have it."""

    def leave(self, simulator: str) -> None:
        """`simulator` plays no more."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until `take` may return one, for up to `timeout_s`; False: it never will again."""


class Executor(Protocol):
    """One way to play a schedule: on this machine, or on several."""

    @property
    def name(self) -> Literal["local", "ray"]: ...

    def play(self, schedule: Schedule, tell: Tell, stop: threading.Event) -> None:
        """Play until every job of `schedule` is done, or `stop` is set; then nothing runs.

        Each job that it takes ends in one `Finished` or `Failed` that is told, or is given back.
        Whoever reads the events says `schedule.done`, and nobody else. Raises the `RpentBoxError`
        that keeps an evaluation from going on.
        """
