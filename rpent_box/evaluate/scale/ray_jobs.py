# SPDX-License-Identifier: Apache-2.0
"""The jobs of one machine of a cluster: given to it one by one, each waited for by who gave it."""

from __future__ import annotations

import threading
import time

from rpent_box.evaluate.scale.events import Failed, Finished
from rpent_box.evaluate.scale.plan import Job, JobKey, TaskKey
from rpent_box.evaluate.scale.ray_messages import NotPlayed, Outcome

POLL_S = 1.0


class GivenJobs:
    """A `Source` for the simulators of this machine, filled by calls from the driver.

    Safe from any thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._outcomes: dict[JobKey, Outcome | None] = {}
        """Job → its outcome, None while it is to come; of those that somebody waits for."""
        self._waiters: dict[JobKey, int] = {}
        self._closed = False

    def play(self, job: Job) -> Outcome:
        """Have `job` played and return what came of it; `NotPlayed` when this is closed before.

        A job that is being played already, since Ray asks again when it has not seen an answer, is
        not played a second time: both get the same outcome.
        """
        with self._changed:
            if not self._closed:
                self._enter(job)
            while not self._closed and self._outcomes[job.key] is None:
                # Whoever waits for it all is the driver, whose limits end the episode.
                self._changed.wait(POLL_S)
            return self._take_outcome(job.key) or NotPlayed()

    def ended(self, outcome: Finished | Failed) -> None:
        """Tell whoever waits for it what came of a job."""
        with self._changed:
            if outcome.job.key in self._outcomes:
                self._outcomes[outcome.job.key] = outcome
                self._changed.notify_all()

    def close(self) -> None:
        """Let go of everyone who waits. May be called twice."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def take(self, simulator: str, holding: TaskKey | None) -> Job | None:
        """Return a job of the task that `simulator` holds, else the first; None: none waits."""
        with self._changed:
            if not self._waiting:
                return None
            same = (job for job in self._waiting if job.task_key == holding)
            job = next(same, self._waiting[0])
            self._waiting.remove(job)
            return job

    def give_back(self, job: Job) -> None:
        """`job` was not played to its end: another simulator of this machine may have it."""
        with self._changed:
            if not self._closed and job.key in self._outcomes and job not in self._waiting:
                self._waiting.insert(0, job)
                self._changed.notify_all()

    def leave(self, simulator: str) -> None:
        """Nothing to note: the driver keeps count of who plays what."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until `take` may return a job, for up to `timeout_s`; False: it never will again."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._closed and not self._waiting:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            return not self._closed

    def _enter(self, job: Job) -> None:
        if job.key not in self._waiters:
            self._outcomes[job.key] = None
            self._waiting.append(job)
            self._changed.notify_all()
        self._waiters[job.key] = self._waiters.get(job.key, 0) + 1

    def _take_outcome(self, key: JobKey) -> Outcome | None:
        outcome = self._outcomes.get(key)
        left = self._waiters.get(key, 1) - 1
        if left:
            self._waiters[key] = left
        else:
            self._waiters.pop(key, None)
            self._outcomes.pop(key, None)
        return outcome
