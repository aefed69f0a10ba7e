# SPDX-License-Identifier: Apache-2.0
"""One queue of episodes for all simulators: each is handed out once, and done once."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rpent_box.evaluate.scale.plan import Job, TaskKey


class Schedule:
    """Hands out jobs so that simulators change their task seldom. Safe from any thread."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        """`jobs` are those that are left to play. Raises `ValueError` for two with the same key."""
        self._changed = threading.Condition()
        self._waiting: dict[TaskKey, list[Job]] = {}
        self._out: dict[Job, str] = {}
        """Job → which simulator has it."""
        for job in jobs:
            self._waiting.setdefault(job.task_key, []).append(job)

    def take(self, simulator: str, holding: TaskKey | None) -> Job | None:
        """Return the next job for `simulator`, whose scene is that of `holding`; None: none waits.

        None does not mean that all is done: a job that another one has may come back.
        """
        raise NotImplementedError

    def done(self, job: Job) -> bool:
        """Note that `job` has its result; False when that was known already: drop this one."""
        raise NotImplementedError

    def give_back(self, job: Job) -> None:
        """`job` was not played to its end: hand it out again."""
        raise NotImplementedError
