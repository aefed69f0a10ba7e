# SPDX-License-Identifier: Apache-2.0
"""What the episodes of an evaluation came to, by task and in all."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rpent_box.contracts.messages import Histogram
from rpent_box.evaluate.scale.plan import EvalPlan, Job, TaskKey
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.live.histograms import Tally
from rpent_box.live.picture import Task
from rpent_box.sim.results import EpisodeRow

EPISODE_BOUNDS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


class Scores:
    """Adds up episodes. Belongs to whoever holds the lock around it."""

    def __init__(self) -> None:
        self.episodes = 0
        self.successes = 0
        self.failures = 0
        self.errors = 0
        self.steps = 0
        self.predictions = 0
        self.stages_s: dict[str, float] = {}
        self._tasks: dict[TaskKey, Task] = {}
        self._episode_s: dict[str, Tally] = {}

    @property
    def done(self) -> int:
        """Episodes with a result."""
        return self.successes + self.failures

    def expect(self, plan: EvalPlan, jobs: tuple[Job, ...]) -> None:
        """These will be played, or have been."""
        names = {TaskKey(task.suite, task.task): task.name for task in plan.tasks}
        for job in jobs:
            key = job.task_key
            task = self._task(key)
            self._tasks[key] = replace(
                task, name=names.get(key, task.name), episodes=task.episodes + 1
            )
        self.episodes += len(jobs)

    def add(self, row: EpisodeRow) -> None:
        """An episode has its result."""
        key = TaskKey(row.suite, row.task)
        task = self._task(key)
        self._tasks[key] = replace(
            task,
            successes=task.successes + row.success,
            failures=task.failures + (not row.success),
            steps=task.steps + row.steps,
            acting_s=task.acting_s + row.wall_s,
        )
        self.successes += row.success
        self.failures += not row.success
        self.steps += row.steps
        self.predictions += row.predictions
        for stage, seconds in row.stages_s.items():
            self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds
        self._episode_s.setdefault(row.suite, Tally(EPISODE_BOUNDS_S)).add(row.wall_s)

    def add_error(self, key: TaskKey) -> None:
        """An episode ended without a result."""
        task = self._task(key)
        self._tasks[key] = replace(task, errors=task.errors + 1)
        self.errors += 1

    def tasks(self) -> tuple[Task, ...]:
        """Return every task with its interval, in the order of the plan."""
        return tuple(_with_interval(task) for task in self._tasks.values())

    def episode_s(self) -> dict[str, Histogram]:
        """Return how long episodes took, by suite."""
        return {suite: tally.histogram() for suite, tally in self._episode_s.items()}

    def _task(self, key: TaskKey) -> Task:
        return self._tasks.get(key) or Task(suite=key.suite, task=key.task, name="", episodes=0)


def sum_of(tasks: Sequence[Task], suite: str = "") -> Task:
    """Return several tasks as one, with its interval; it has no name and no index of its own."""
    return _with_interval(
        Task(
            suite=suite,
            task=0,
            name="",
            episodes=sum(task.episodes for task in tasks),
            successes=sum(task.successes for task in tasks),
            failures=sum(task.failures for task in tasks),
            errors=sum(task.errors for task in tasks),
            steps=sum(task.steps for task in tasks),
            acting_s=sum(task.acting_s for task in tasks),
        )
    )


def _with_interval(task: Task) -> Task:
    low, high = wilson_interval(task.successes, task.successes + task.failures)
    return replace(task, low=low, high=high)
