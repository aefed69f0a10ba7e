# SPDX-License-Identifier: Apache-2.0
"""The toy platform and backend, installed for the length of a test; rows and runs to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import EvalManifest, FailedAttempt
from rpent_box.evaluate.scale.plan import EvalPlan, Job, TaskPlan
from rpent_box.evaluate.scale.watcher import Begun
from rpent_box.evaluate.summary import RunSummary, figures, video_paths
from rpent_box.sim.results import EpisodeRow

TOY = Path(__file__).parents[2] / "support" / "toy"

MODEL = ModelMeta(
    kind="vla",
    backend="toy",
    checkpoint="built-in",
    control=control_spec(LIBERO_OSC_DELTA),
    camera_roles=("primary",),
    proprio_schema={"position": 2},
    action_horizon=6,
    execute_steps=4,
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.syspath_prepend(str(TOY / "entry_points"))


@pytest.fixture
def row() -> Callable[..., EpisodeRow]:
    return _row


@pytest.fixture
def summary() -> Callable[..., RunSummary]:
    return _summary


def _row(*, episode: int = 0, success: bool = True, steps: int = 12) -> EpisodeRow:
    return EpisodeRow(
        run="run-1",
        finished_at="2026-01-01T00:00:00+00:00",
        suite="toy_easy",
        task=0,
        init_state=episode,
        episode=episode,
        seed=7,
        instruction="go to the goal",
        success=success,
        steps=steps,
        predictions=3,
        execute_steps=4,
        max_steps=40,
        wall_s=2.0,
        setup_s=0.25,
        stages_s={"simulate": 0.5, "render": 1.0, "transport": 0.1, "infer": 0.4},
        actions_sha256="a" * 64,
        first_frames_sha256="b" * 64,
        video="episode.mp4",
        video_s=0.5,
    )


def _summary(*rows: EpisodeRow) -> RunSummary:
    return RunSummary(
        run="run-1",
        run_dir="/runs/run-1",
        backend="toy",
        platform="toy",
        suite="toy_easy",
        task=0,
        task_name="reach",
        instruction="go to the goal",
        launcher="process",
        launcher_why="asked for",
        endpoint=None,
        seed=7,
        episodes=rows,
        start_s=3.0,
        total_s=9.0,
        model=MODEL,
        videos=video_paths(Path("/runs/run-1"), rows),
        **structs.asdict(figures(rows)),
    )


class Story:
    """An evaluation of the toy, told to a watcher piece by piece."""

    def __init__(
        self, run_dir: str = "/runs/run-1", *, suites: int = 1, tasks: int = 2, episodes: int = 3
    ) -> None:
        self.run_dir = run_dir
        self.plan = EvalPlan(
            platform="toy",
            tasks=tuple(
                TaskPlan(
                    suite=f"suite_{suite}",
                    task=task,
                    name=f"reach_the_goal_number_{task}_and_stay_there_for_a_while",
                    first_init_state=0,
                    episodes=episodes,
                    max_steps=40,
                )
                for suite in range(suites)
                for task in range(tasks)
            ),
            seeds=(7,),
            execute_steps=None,
            video="failures",
            backend="toy",
        )
        self.jobs = self.plan.jobs()

    def manifest(self, **changes: Any) -> EvalManifest:
        facts = {
            "run": Path(self.run_dir).name,
            "status": "running",
            "started_at": "2026-01-01T00:00:00+00:00",
            "plan": self.plan,
            "config": EvalConfig(platform="toy"),
            "episodes": len(self.jobs),
        }
        return EvalManifest(**facts | changes)

    def begun(self, *rows: EpisodeRow) -> Begun:
        return Begun(run_dir=self.run_dir, manifest=self.manifest(), jobs=self.jobs, rows=rows)

    def row(
        self, job: Job, *, success: bool = True, simulator: str = "0", wall_s: float = 2.0
    ) -> EpisodeRow:
        return structs.replace(
            _row(episode=job.episode, success=success),
            suite=job.suite,
            task=job.task,
            init_state=job.init_state,
            seed=job.seed,
            simulator=simulator,
            wall_s=wall_s,
            video=None,
            video_s=0.0,
        )

    def failed(self, job: Job, message: str = "the toy broke", **changes: Any) -> FailedAttempt:
        return FailedAttempt(
            **{
                "episode": job.episode,
                "suite": job.suite,
                "task": job.task,
                "init_state": job.init_state,
                "seed": job.seed,
                "code": "simulator",
                "message": message,
                "simulator": "0",
                "at": "2026-01-01T00:00:00+00:00",
                **changes,
            }
        )


@pytest.fixture
def story() -> Callable[..., Story]:
    return Story
