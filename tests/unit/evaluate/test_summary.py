# SPDX-License-Identifier: Apache-2.0
import json

import msgspec
import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import META as MODEL

from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.evaluate.summary import RunSummary, episode_table, figures, video_paths
from rpent_box.sim.results import row_of

SOLVED = row_of(
    EpisodePlayed(
        suite="toy_easy",
        task=0,
        init_state=3,
        episode=0,
        seed=7,
        instruction="go",
        success=True,
        steps=10,
        predictions=3,
        execute_steps=4,
        max_steps=40,
        wall_s=2.0,
        setup_s=0.5,
        stages_s={"simulate": 1.5, "other": 0.5},
        actions_sha256="",
        first_frames_sha256="",
        video="episode.mp4",
    ),
    run="run-1",
)
FAILED = replace(SOLVED, init_state=4, episode=1, success=False, steps=40, wall_s=8.0, video=None)


def test_figures_count_the_solved_and_add_up_the_rest():
    result = figures([SOLVED, FAILED])
    assert (result.successes, result.success_rate, result.steps) == (1, 0.5, 50)
    assert result.mean_success_steps == 10
    assert result.acting_s == 10.0
    assert result.stages_s == {"simulate": 3.0, "other": 1.0}
    low, high = result.success_interval
    assert 0 < low < 0.5 < high < 1


def test_no_solved_episode_has_no_mean():
    assert figures([FAILED]).mean_success_steps is None
    assert figures([]).success_interval == (0.0, 1.0)


def test_the_table_has_one_line_per_episode():
    assert episode_table([SOLVED, FAILED]) == [(0, 3, True, 10, 2.0), (1, 4, False, 40, 8.0)]


def test_only_written_videos_have_a_path(tmp_path):
    assert video_paths(tmp_path, [SOLVED, FAILED]) == (
        str(tmp_path / "episode-000" / "episode.mp4"),
    )


def test_a_summary_is_one_json_object():
    summary = RunSummary(
        run="run-1",
        run_dir="/runs/run-1",
        backend="toy",
        platform="toy",
        suite="toy_easy",
        task=0,
        task_name="reach",
        instruction="go",
        launcher="process",
        launcher_why="asked for",
        endpoint=None,
        seed=7,
        episodes=(SOLVED, FAILED),
        start_s=1.0,
        total_s=12.0,
        model=MODEL,
        videos=(),
        successes=1,
        success_rate=0.5,
        success_interval=(0.1, 0.9),
        steps=50,
        mean_success_steps=10.0,
        acting_s=10.0,
        stages_s={"simulate": 3.0},
    )
    read = json.loads(msgspec.json.encode(summary))
    assert read["success_interval"] == [0.1, 0.9]
    assert [episode["init_state"] for episode in read["episodes"]] == [3, 4]
    assert read["model"]["control"]["action_space"] == "toy.point.delta.v1"
    assert read["stages_s"] == {"simulate": pytest.approx(3.0)}
