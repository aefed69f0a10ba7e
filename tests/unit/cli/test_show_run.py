# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rpent_box.cli.show_run import render_summary
from rpent_box.contracts.control_messages import Restart
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


def test_sentences_that_differ_by_scene_are_not_passed_over(row: Rows, summary: Summaries) -> None:
    told = summary(row()).instruction
    assert "other sentence" not in render_summary(summary(row(), row(episode=1)))
    rows = [row(), *(replace(row(episode=n), instruction=f"sentence {n}") for n in (1, 2))]
    assert f": {told} (and 2 other sentences, by scene)\n" in render_summary(summary(*rows))


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


def test_an_episode_that_was_begun_again_is_named_with_the_reason(
    row: Rows, summary: Summaries
) -> None:
    hung = Restart(
        why="hung",
        reason="no sign of progress for 600 s",
        phase="resetting",
        step=0,
        silent_s=600.2,
        at="2026-01-01T00:00:00+00:00",
        log="simulator.log",
    )
    died = replace(hung, why="died", reason="killed by SIGSEGV", log="simulator.1.log")
    rows = [row(episode=0), replace(row(episode=1), restarts=(hung, died))]
    text = render_summary(summary(*rows))
    assert (
        "again      episode 1 was begun again 2 times:\n"
        "           the simulator hung at: resetting, step 0 "
        "(no sign of progress for 600 s): simulator.log\n"
        "           the simulator died at: resetting, step 0 (killed by SIGSEGV): simulator.1.log\n"
    ) in text
    assert "begun again" not in render_summary(summary(row()))


def test_what_the_platform_remarks_on_is_counted_over_all_steps(
    row: Rows, summary: Summaries
) -> None:
    rows = [
        replace(row(episode=0), remarks={"the left hand was held": 2}),
        replace(
            row(episode=1), remarks={"the left hand was held": 3, "the right hand was held": 9}
        ),
    ]
    text = render_summary(summary(*rows))
    assert "note       the right hand was held: in 9 of 24 steps\n" in text
    assert "note       the left hand was held: in 5 of 24 steps\n" in text
    assert "note" not in render_summary(summary(row()))
