# SPDX-License-Identifier: Apache-2.0
"""How episodes that belong together went: the one place where results are counted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from rpent_box.evaluate.scale.plan import JobKey, key_of
from rpent_box.evaluate.statistics import mean, wilson_interval
from rpent_box.sim.results import EpisodeRow


class Score(Struct, frozen=True, kw_only=True):
    """How the episodes of a task, a suite or an evaluation went."""

    episodes: int
    """Asked for."""
    done: int
    """Of these, that have a result."""
    failed: int
    """Of these, that ended in an error when they were last tried, and have no result."""
    successes: int
    success_rate: float | None
    """Of what is done; None: nothing is."""
    success_interval: tuple[float, float]
    """95 % Wilson score interval of the success rate."""
    mean_steps: float | None
    mean_success_steps: float | None
    """Over the solved episodes; None when there is none."""


def score_of(
    asked: Collection[JobKey], rows: Iterable[EpisodeRow], failed: Iterable[JobKey]
) -> Score:
    """Count `rows`, which are of `asked`, no two of one episode.

    `failed` may name an episode several times, and also one that has its result by now.
    """
    by_key = {key_of(row): row for row in rows}
    solved = [row for row in by_key.values() if row.success]
    return Score(
        episodes=len(asked),
        done=len(by_key),
        failed=len(set(failed) - by_key.keys()),
        successes=len(solved),
        success_rate=len(solved) / len(by_key) if by_key else None,
        success_interval=wilson_interval(len(solved), len(by_key)),
        mean_steps=mean(row.steps for row in by_key.values()),
        mean_success_steps=mean(row.steps for row in solved),
    )
