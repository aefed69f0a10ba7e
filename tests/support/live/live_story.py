# SPDX-License-Identifier: Apache-2.0
"""An evaluation that never was, told to a watcher piece by piece; and a clock that tests move."""

from __future__ import annotations

from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures, Histogram, Payload
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import EvalManifest, FailedAttempt
from rpent_box.evaluate.scale.plan import EvalPlan, Job, TaskPlan
from rpent_box.evaluate.scale.watcher import Begun
from rpent_box.sim.results import EpisodeRow

AT = "2026-01-02T03:04:05+00:00"
STAGES_S = {"simulate": 1.0, "render": 3.0, "infer": 0.5, "queue": 0.25, "transport": 0.25}
INFER_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Clock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def plan(*, tasks: int = 2, episodes: int = 3, suites: tuple[str, ...] = ("toy_easy",)) -> EvalPlan:
    return EvalPlan(
        platform="toy",
        tasks=tuple(
            TaskPlan(
                suite=suite,
                task=task,
                name=f"put_the_{task}_away",
                first_init_state=0,
                episodes=episodes,
                max_steps=40,
            )
            for suite in suites
            for task in range(tasks)
        ),
        seeds=(7,),
        execute_steps=None,
        video="none",
        backend="mini-wam",
    )


def begun(wanted: EvalPlan | None = None, *, played: int = 0) -> Begun:
    """The beginning of `wanted`, of which earlier sittings have played the first `played`."""
    wanted = wanted or plan()
    jobs = wanted.jobs()
    manifest = EvalManifest(
        run="20260102T030405Z-toy-toy_easy-mini-wam-eval",
        status="running",
        started_at=AT,
        plan=wanted,
        config=EvalConfig(backend="mini-wam", platform="toy"),
        episodes=len(jobs),
    )
    rows = tuple(row(job) for job in jobs[:played])
    return Begun(run_dir=f"/tmp/runs/{manifest.run}", manifest=manifest, jobs=jobs, rows=rows)


def row(job: Job, *, success: bool = True, simulator: str = "0", wall_s: float = 5.0) -> EpisodeRow:
    return EpisodeRow(
        run="20260102T030405Z-toy-toy_easy-mini-wam-eval",
        finished_at=AT,
        suite=job.suite,
        task=job.task,
        init_state=job.init_state,
        episode=job.episode,
        seed=job.seed,
        instruction="put it away",
        success=success,
        steps=20 if success else 40,
        predictions=5,
        execute_steps=8,
        max_steps=40,
        wall_s=wall_s,
        setup_s=0.2,
        stages_s=dict(STAGES_S),
        actions_sha256="0" * 64,
        first_frames_sha256="1" * 64,
        simulator=simulator,
    )


def acting(steps: int = 8, seen: Payload | None = None) -> Progress:
    return Progress(phase="acting", steps=steps, max_steps=40, seen=seen)


def restart(why: str = "hung") -> Restart:
    return Restart(
        why=why,
        reason="no sign of progress for 600 s",
        phase="acting",
        step=12,
        silent_s=600.0,
        at=AT,
        log="simulator-0.log",
    )


def failure(job: Job, *, code: str = "simulator", simulator: str = "0") -> FailedAttempt:
    return FailedAttempt(
        episode=job.episode,
        suite=job.suite,
        task=job.task,
        init_state=job.init_state,
        seed=job.seed,
        code=code,
        message="the simulator raised: <b>ValueError</b>",
        simulator=simulator,
        at=AT,
    )


def figures(ready_s: float, *, busy_s: float | None = None, served: int = 60) -> Figures:
    """What a worker says that was busy half of the time and held batches open for a tenth of it."""
    busy = ready_s / 2 if busy_s is None else busy_s
    return Figures(
        ready_s=ready_s,
        busy_s=busy,
        gathering_s=ready_s / 10,
        idle_s=ready_s - busy - ready_s / 10,
        served=served,
        refused=1,
        batches={1: 10, 2: 20, 5: 2},
        infer_s=Histogram(
            bounds=INFER_BOUNDS, counts=(0, 0, 1, 4, 12, 9, 4, 1, 0, 0, 1), total=2.5
        ),
        queue_s=Histogram(
            bounds=INFER_BOUNDS, counts=(20, 15, 9, 6, 5, 3, 2, 0, 0, 0, 0), total=0.6
        ),
        max_batch=8,
        max_wait_ms=3.5,
        tuned=True,
    )
