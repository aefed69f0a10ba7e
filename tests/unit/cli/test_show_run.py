# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rpent_box.cli.show_run import render_summary
from rpent_box.evaluate.summary import RunSummary
from rpent_box.sim.results import EpisodeRow

Rows = Callable[..., EpisodeRow]
Summaries = Callable[..., RunSummary]


def test_one_episode_shows_success_steps_times_and_files(row: Rows, summary: Summaries) -> None:
    text = render_summary(summary(row()))
    assert "success    yes\n" in text
    assert "steps      12 of at most 40\n" in text
    assert "9.0 s: start 3.0 s, scenes 0.25 s, acting 2.0 s, videos 0.50 s" in text
    assert "video      /runs/run-1/episode-000/episode.mp4\n" in text
    assert "results    /runs/run-1\n" in text


def test_the_stages_are_sorted_by_what_they_cost(row: Rows, summary: Summaries) -> None:
    lines = render_summary(summary(row())).splitlines()
    stages = [line.split() for line in lines if line.startswith(" " * 11) and "%" in line]
    assert [stage[0] for stage in stages] == ["render", "simulate", "infer", "transport"]
    assert stages[0] == ["render", "1.000", "s", "50%"]


def test_several_episodes_make_a_table_and_a_rate_with_its_interval(
    row: Rows, summary: Summaries
) -> None:
    rows = [row(episode=0), row(episode=1, success=False, steps=40), row(episode=2)]
    text = render_summary(summary(*rows))
    assert "init state  success  steps  seconds\n" in text
    assert "         1  no          40     2.00\n" in text
    assert "success    2 of 3: 66.7% (95% interval 20.8% to 93.9%)\n" in text
    assert "steps      12.0 on average when solved\n" in text


def test_a_failed_episode_says_so(row: Rows, summary: Summaries) -> None:
    assert "success    no\n" in render_summary(summary(row(success=False)))


def test_many_videos_are_counted_and_not_listed(row: Rows, summary: Summaries) -> None:
    text = render_summary(summary(*(row(episode=number) for number in range(10))))
    assert "and 7 more" in text
    assert "episode-009" not in text


def test_a_video_that_could_not_be_written_is_explained(row: Rows, summary: Summaries) -> None:
    text = render_summary(summary(replace(row(), video=None, video_error="no encoder")))
    assert "no video   of episode 0: no encoder\n" in text


def test_a_borrowed_worker_is_named_by_its_endpoint(row: Rows, summary: Summaries) -> None:
    text = render_summary(replace(summary(row()), endpoint="tcp://gpu:5555"))
    assert "toy (built-in), borrowed at tcp://gpu:5555, seed 7" in text
