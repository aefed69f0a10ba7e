# SPDX-License-Identifier: Apache-2.0
"""What a run or an evaluation comes to, in numbers: pure functions of what was loaded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict

from rpent_box.evaluate.scale.plan import JobKey, TaskKey
from rpent_box.evaluate.scale.scores import Score, score_of
from rpent_box.evaluate.statistics import mean, median, total_remarks
from rpent_box.report.load import Asked, Entry
from rpent_box.report.times import Times, WorkerTimes, times_of, workers_of
from rpent_box.sim.results import EpisodeRow


class PlayedScore(Score, frozen=True, kw_only=True):
    """A score, and what else its episodes tell."""

    failed_attempts: int
    """Attempts that ended in an error; one episode may have several, and a result in the end."""
    median_success_steps: float | None
    solved_steps: tuple[int, ...]
    """Of each solved episode, sorted."""
    unsolved_steps: tuple[int, ...]
    mean_episode_s: float | None
    """Building the scene and acting, without video; None: nothing is done."""
    restarts: int
    """Attempts that were lost with their simulator, and begun again."""
    remarks: dict[str, int]
    """What the platform said of steps, and of how many; the commonest first."""

    @property
    def missing(self) -> int:
        """Episodes that were asked for and have no result."""
        return self.episodes - self.done

    @property
    def possible_rates(self) -> tuple[float, float]:
        """Of all that was asked for: if none of what is missing is solved, and if all of it is."""
        if not self.episodes:
            return 0.0, 1.0
        least = self.successes / self.episodes
        return least, (self.successes + self.missing) / self.episodes


class TaskScore(PlayedScore, frozen=True, kw_only=True):
    suite: str
    task: int
    name: str
    instructions: tuple[str, ...]
    """The sentences that were given, each once; empty: nothing is done."""
    max_steps: int


class SuiteScore(PlayedScore, frozen=True, kw_only=True):
    suite: str
    tasks: tuple[TaskScore, ...]


class EntryFigures(Struct, frozen=True, kw_only=True):
    """Everything about one result."""

    total: PlayedScore
    suites: tuple[SuiteScore, ...]
    times: Times
    workers: tuple[WorkerTimes, ...]
    """One per machine; empty: no worker's counters were kept."""


def figures_of(entry: Entry) -> EntryFigures:
    """Count and add up."""
    tasks = _by_task(entry)
    scores = [_task_score(key, episodes, entry) for key, episodes in tasks.items()]
    suites = [
        SuiteScore(
            suite=suite,
            tasks=tuple(score for score in scores if score.suite == suite),
            **asdict(_score([one for key, one in tasks.items() if key.suite == suite])),
        )
        for suite in dict.fromkeys(key.suite for key in tasks)
    ]
    return EntryFigures(
        total=_score(list(tasks.values())),
        suites=tuple(suites),
        times=times_of(entry),
        workers=workers_of(entry),
    )


class _Episodes(Struct):
    """Of one task: what was asked for, what came of it, and what failed."""

    asked: list[Asked] = []
    rows: list[EpisodeRow] = []
    failed: list[JobKey] = []


def _by_task(entry: Entry) -> dict[TaskKey, _Episodes]:
    """Return the episodes of each task, in the order in which tasks were asked for."""
    tasks: dict[TaskKey, _Episodes] = {}
    for folder in entry.folders:
        for asked in folder.asked:
            key = TaskKey(asked.key.suite, asked.key.task)
            tasks.setdefault(key, _Episodes()).asked.append(asked)
        for row in folder.rows:
            tasks[TaskKey(row.suite, row.task)].rows.append(row)
        for one in folder.failed:
            key = TaskKey(one.suite, one.task)
            failed = JobKey(one.suite, one.task, one.init_state, one.seed)
            tasks.setdefault(key, _Episodes()).failed.append(failed)
    return tasks


def _task_score(key: TaskKey, episodes: _Episodes, entry: Entry) -> TaskScore:
    names = (folder.task_names.get(key, "") for folder in entry.folders)
    return TaskScore(
        suite=key.suite,
        task=key.task,
        name=next(filter(None, names), ""),
        instructions=tuple(dict.fromkeys(row.instruction for row in episodes.rows)),
        max_steps=max((one.max_steps for one in episodes.asked), default=1),
        **asdict(_score([episodes])),
    )


def _score(tasks: Sequence[_Episodes]) -> PlayedScore:
    rows = [row for one in tasks for row in one.rows]
    failed = [key for one in tasks for key in one.failed]
    solved = sorted(row.steps for row in rows if row.success)
    score = score_of([asked.key for one in tasks for asked in one.asked], rows, failed)
    return PlayedScore(
        **asdict(score),
        failed_attempts=len(failed),
        median_success_steps=median(solved),
        solved_steps=tuple(solved),
        unsolved_steps=tuple(sorted(row.steps for row in rows if not row.success)),
        mean_episode_s=mean(row.setup_s + row.wall_s for row in rows),
        restarts=sum(len(row.restarts) for row in rows),
        remarks=total_remarks(row.remarks for row in rows),
    )
