# SPDX-License-Identifier: Apache-2.0
"""The toy platform and backend, installed for the length of a test; rows and runs to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
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
