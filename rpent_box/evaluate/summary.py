# SPDX-License-Identifier: Apache-2.0
"""What a finished run comes to: the object behind the summary table and `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from rpent_box.contracts.meta import ModelMeta
from rpent_box.evaluate.statistics import mean, total_stages, wilson_interval
from rpent_box.sim.results import EpisodeRow, episode_folder_name


class RunSummary(Struct, frozen=True, kw_only=True):
    """A completed run. A failed episode is a result in it, not an error."""

    run: str
    """The run folder's name."""
    run_dir: str
    """Absolute path of the run's folder."""
    backend: str
    platform: str
    suite: str
    task: int
    task_name: str
    instruction: str
    launcher: str
    launcher_why: str
    endpoint: str | None
    """The borrowed worker's endpoint; None when the run owned its worker."""
    seed: int
    episodes: tuple[EpisodeRow, ...]
    successes: int
    success_rate: float
    success_interval: tuple[float, float]
    """95 % Wilson score interval of the success rate."""
    steps: int
    """Of all episodes."""
    mean_success_steps: float | None
    """Over the solved episodes; None when there is none."""
    start_s: float
    """From the call to the first episode: worker and simulator started, checked and connected."""
    acting_s: float
    """Inside the episodes' loops: no start, no scene building, no video."""
    total_s: float
    stages_s: dict[str, float]
    """Where `acting_s` went: `simulate`, `render`, `transport`, `queue`, `infer`, …"""
    model: ModelMeta
    videos: tuple[str, ...]
    """Absolute paths."""


def episode_table(episodes: Sequence[EpisodeRow]) -> list[tuple[int, int, bool, int, float]]:
    """Return (episode, init state, success, steps, acting seconds) per episode."""
    return [(row.episode, row.init_state, row.success, row.steps, row.wall_s) for row in episodes]


def video_paths(run_dir: Path, episodes: Sequence[EpisodeRow]) -> tuple[str, ...]:
    """Return the absolute path of every video that was written."""
    return tuple(
        str(run_dir / episode_folder_name(row.episode) / row.video)
        for row in episodes
        if row.video is not None
    )


class EpisodeFigures(Struct, frozen=True, kw_only=True):
    """The figures of a summary that come from its episodes alone."""

    successes: int
    success_rate: float
    success_interval: tuple[float, float]
    steps: int
    mean_success_steps: float | None
    acting_s: float
    stages_s: dict[str, float]


def figures(episodes: Sequence[EpisodeRow]) -> EpisodeFigures:
    """Count and add up `episodes`."""
    successes = sum(row.success for row in episodes)
    return EpisodeFigures(
        successes=successes,
        success_rate=successes / len(episodes) if episodes else 0.0,
        success_interval=wilson_interval(successes, len(episodes)),
        steps=sum(row.steps for row in episodes),
        mean_success_steps=mean(row.steps for row in episodes if row.success),
        acting_s=sum(row.wall_s for row in episodes),
        stages_s=total_stages(row.stages_s for row in episodes),
    )
