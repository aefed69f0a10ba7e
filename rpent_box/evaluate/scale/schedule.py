# SPDX-License-Identifier: Apache-2.0
"""One queue of episodes for all simulators: each is handed out once, and done once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from rpent_box.evaluate.scale.plan import Job, JobKey, TaskKey


class Schedule:
    """Hands out jobs so that simulators change their task seldom. Safe from any thread.

    A job is waiting, out with one simulator, or done. `take` and `give_back` move it between the
    first two, as often as simulators are lost; `done` is said once of each, and is final.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        """`jobs` are those that are left to play. Raises `ValueError` for two with the same key."""
        self._changed = threading.Condition()
        self._waiting: dict[TaskKey, deque[Job]] = {}
        self._again: deque[Job] = deque()
        """What was given back. Others come first: it may be what its worker died of."""
        self._out: dict[JobKey, str] = {}
        """Job → which simulator has it."""
        self._holders: dict[str, TaskKey] = {}
        """Simulator → whose scene it keeps, as far as is known here."""
        self._unfinished: dict[JobKey, Job] = {}
        self._known: set[JobKey] = set()
        for job in jobs:
            if job.key in self._known:
                raise ValueError(f"two jobs have the key {job.key}: each episode is played once")
            self._known.add(job.key)
            self._unfinished[job.key] = job
            self._waiting.setdefault(job.task_key, deque()).append(job)

    def take(self, simulator: str, holding: TaskKey | None) -> Job | None:
        """Return the next job for `simulator`, whose scene is that of `holding`; None: none waits.

        One of the same task, else of a task that nobody plays, else of the one with most waiting,
        from its other end; what was given back comes last. None does not mean that all is done: a
        job that another simulator has may come back.
        """
        with self._changed:
            job = self._next(simulator, holding)
            if job is None:
                return None
            self._out[job.key] = simulator
            self._holders[simulator] = job.task_key
            return job

    def done(self, job: Job) -> bool:
        """Note that `job` has its result; False when that was known already: drop this one.

        True also for a job that was given back meanwhile: it is not handed out again. Raises
        `ValueError` for one that was never in this schedule.
        """
        with self._changed:
            if job.key not in self._known:
                raise ValueError(f"{job.key} is no job of this schedule")
            if self._unfinished.pop(job.key, None) is None:
                return False
            if self._out.pop(job.key, None) is None:
                again = job in self._again
                (self._again if again else self._waiting[job.task_key]).remove(job)
            self._changed.notify_all()
            return True

    def give_back(self, job: Job) -> None:
        """`job` was not played to its end: hand it out again. Does nothing once it is done.

        It is handed out when no other waits, so that one episode of which workers die does not keep
        all others from being played.
        """
        with self._changed:
            if self._out.pop(job.key, None) is None:
                return
            self._again.append(job)
            self._changed.notify_all()

    def leave(self, simulator: str) -> None:
        """`simulator` plays no more: its task counts as one that nobody plays."""
        with self._changed:
            self._holders.pop(simulator, None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until a job may be had, for up to `timeout_s`. False: all are done, none will be."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._unfinished and not self._any_waits():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            return bool(self._unfinished)

    @property
    def waiting(self) -> int:
        """Jobs that nobody plays at the moment."""
        with self._changed:
            return sum(map(len, self._waiting.values())) + len(self._again)

    @property
    def unfinished(self) -> tuple[Job, ...]:
        """Jobs that are not done, in the order in which they were given."""
        with self._changed:
            return tuple(self._unfinished.values())

    def _any_waits(self) -> bool:
        return bool(self._again) or any(self._waiting.values())

    def _next(self, simulator: str, holding: TaskKey | None) -> Job | None:
        if holding is not None and self._waiting.get(holding):
            return self._waiting[holding].popleft()
        open_tasks = [task for task, jobs in self._waiting.items() if jobs]
        if not open_tasks:
            return self._again.popleft() if self._again else None
        others = {task for holder, task in self._holders.items() if holder != simulator}
        untouched = [task for task in open_tasks if task not in others]
        most = max(untouched or open_tasks, key=lambda task: len(self._waiting[task]))
        jobs = self._waiting[most]
        return jobs.popleft() if untouched else jobs.pop()
