# SPDX-License-Identifier: Apache-2.0
"""What an evaluation comes to, so far or at its end: the object behind its table and `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from rpent_box.evaluate.scale.manifest import EvalManifest, EvalStatus, Session
from rpent_box.evaluate.scale.plan import Job, JobKey, TaskKey, TaskPlan, key_of
from rpent_box.evaluate.scale.scores import Score, score_of
from rpent_box.evaluate.statistics import total_stages
from rpent_box.sim.results import EpisodeRow


class TaskScore(Score, frozen=True, kw_only=True):
    suite: str
    task: int
    name: str


class SuiteScore(Score, frozen=True, kw_only=True):
    suite: str


class EvalSummary(Struct, frozen=True, kw_only=True):
    """An evaluation, over all its sittings. An episode that was not solved is no error."""

    run: str
    """The run folder's name."""
    run_dir: str
    """Absolute path of the run's folder."""
    status: EvalStatus
    """`incomplete`: some episodes ended in an error; a resume tries them again."""
    backend: str
    platform: str
    seeds: tuple[int, ...]
    tasks: tuple[TaskScore, ...]
    suites: tuple[SuiteScore, ...]
    total: Score
    restarts: int
    """Of simulators that hung or died."""
    worker_starts: int
    """Of workers on all machines; more than machines and sittings when one was lost."""
    envs: int
    """Simulators at the end of the last sitting, on all machines."""
    sittings: int
    wall_s: float
    """Of all sittings together: from each call to its end."""
    episodes_per_minute: float | None
    """Of the last sitting, from its first episode's beginning; None when it finished none."""
    worker_busy_share: float | None
    """Of the time in which workers were ready in the last sitting, that inside their models; of a
    borrowed one, also for others. None: they were not asked."""
    stages_s: dict[str, float]
    """What the time inside the episodes' loops was spent on, in seconds of all simulators."""


def summarize(
    manifest: EvalManifest,
    run_dir: str,
    rows: Sequence[EpisodeRow],
    failed: Sequence[JobKey],
) -> EvalSummary:
    """Count and add up. `failed` are the jobs whose last attempt ended in an error."""
    jobs = manifest.plan.jobs()
    last = manifest.sessions[-1] if manifest.sessions else None
    tally = _Tally(jobs, rows, failed)
    plan = manifest.plan
    return EvalSummary(
        run=manifest.run,
        run_dir=run_dir,
        status=manifest.status,
        backend=_backend(manifest),
        platform=plan.platform,
        seeds=plan.seeds,
        tasks=tuple(tally.of_task(task) for task in plan.tasks),
        suites=tuple(tally.of_suite(suite) for suite in plan.suites),
        total=tally.of_all(),
        restarts=manifest.restarts,
        worker_starts=sum(p.worker_starts for s in manifest.sessions for p in s.places),
        envs=sum(place.envs for place in last.places) if last else 0,
        sittings=len(manifest.sessions),
        wall_s=sum(session.wall_s for session in manifest.sessions),
        episodes_per_minute=_pace(last),
        worker_busy_share=_busy_share(last),
        stages_s=total_stages(row.stages_s for row in rows),
    )


class _Tally:
    """Rows and failures by what they belong to."""

    def __init__(
        self, jobs: Sequence[Job], rows: Sequence[EpisodeRow], failed: Sequence[JobKey]
    ) -> None:
        self._asked: dict[TaskKey, list[JobKey]] = {}
        for job in jobs:
            self._asked.setdefault(job.task_key, []).append(job.key)
        self._rows = {key_of(row): row for row in rows}
        self._failed = set(failed)

    def of_task(self, task: TaskPlan) -> TaskScore:
        score = self._score(self._asked.get(TaskKey(task.suite, task.task), []))
        return TaskScore(
            suite=task.suite, task=task.task, name=task.name, **msgspec.structs.asdict(score)
        )

    def of_suite(self, suite: str) -> SuiteScore:
        score = self._together(keys for task, keys in self._asked.items() if task.suite == suite)
        return SuiteScore(suite=suite, **msgspec.structs.asdict(score))

    def of_all(self) -> Score:
        return self._together(self._asked.values())

    def _together(self, tasks: Iterable[Sequence[JobKey]]) -> Score:
        return self._score([key for keys in tasks for key in keys])

    def _score(self, asked: Sequence[JobKey]) -> Score:
        rows = [self._rows[key] for key in asked if key in self._rows]
        return score_of(asked, rows, self._failed.intersection(asked))


def _backend(manifest: EvalManifest) -> str:
    if manifest.worker is not None:
        return manifest.worker.meta.backend
    return manifest.plan.backend or "endpoint"


def _pace(session: Session | None) -> float | None:
    if session is None or session.episodes == 0:
        return None
    playing_s = session.wall_s - session.start_s
    return 60 * session.episodes / playing_s if playing_s > 0 else None


def _busy_share(session: Session | None) -> float | None:
    figures = [place.worker for place in session.places if place.worker] if session else []
    ready_s = sum(one.ready_s for one in figures)
    return sum(one.busy_s for one in figures) / ready_s if ready_s > 0 else None
