# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from fabricated_runs import (
    HOST,
    fabricate_evaluation,
    fabricate_run,
    plan_of,
    restart,
    session_of,
)
from msgspec.structs import replace

from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.evaluate.scale.manifest import Place, Session
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.report.figures import figures_of
from rpent_box.report.load import Entry, load_entries
from rpent_box.report.times import quantile

PLAN = plan_of({"libero_spatial": 2, "libero_object": 1}, episodes=5)


def outcome(job, row):
    """Solve even init states, after 20 steps and 10 more for each."""
    success = job.init_state % 2 == 0
    steps = 20 + 10 * job.init_state if success else job.max_steps
    stages = {"simulate": 1.0, "render": 2.0, "infer": 0.5, "queue": 0.25, "other": 0.25}
    return replace(row, success=success, steps=steps, stages_s=stages, wall_s=4.0, setup_s=1.0)


def entry_of(path) -> Entry:
    (entry,) = load_entries([path])
    return entry


def test_scores_are_counted_by_task_suite_and_in_all(tmp_path):
    found = figures_of(entry_of(fabricate_evaluation(tmp_path, "a", plan=PLAN, change=outcome)))
    spatial, objects = found.suites
    assert [(one.suite, one.done, one.successes) for one in found.suites] == [
        ("libero_spatial", 10, 6),
        ("libero_object", 5, 3),
    ]
    assert [(task.task, task.successes) for task in spatial.tasks] == [(0, 3), (1, 3)]
    assert (found.total.episodes, found.total.done, found.total.successes) == (15, 15, 9)
    assert found.total.success_rate == 0.6
    assert found.total.success_interval == wilson_interval(9, 15)
    task = objects.tasks[0]
    assert task.solved_steps == (20, 40, 60)
    assert (task.mean_success_steps, task.median_success_steps) == (40, 40)
    assert task.unsolved_steps == (280, 280)
    assert task.max_steps == 280
    assert task.instructions == ("pick up the black bowl and place it on the plate",)
    assert task.mean_episode_s == 5.0


def test_what_was_not_played_or_failed_does_not_count_as_unsolved(tmp_path):
    path = fabricate_evaluation(tmp_path, "a", plan=PLAN, change=outcome, played=12, failed=(0, 14))
    total = figures_of(entry_of(path)).total
    assert (total.episodes, total.done, total.successes) == (15, 11, 6)
    assert (total.failed, total.failed_attempts) == (2, 2)
    assert total.missing == 4
    assert total.possible_rates == (6 / 15, 10 / 15)


def test_a_failed_attempt_with_a_result_in_the_end_is_no_failed_episode(tmp_path):
    path = fabricate_evaluation(tmp_path, "a", plan=PLAN, change=outcome, failed=(3,))
    played = fabricate_evaluation(tmp_path, "b", plan=PLAN, change=outcome)
    (path / "results.jsonl").write_bytes((played / "results.jsonl").read_bytes())
    total = figures_of(entry_of(path)).total
    assert (total.done, total.failed, total.failed_attempts) == (15, 0, 1)


def test_nothing_played_has_no_rate(tmp_path):
    found = figures_of(entry_of(fabricate_evaluation(tmp_path, "a", plan=PLAN, played=0)))
    assert found.total.success_rate is None
    assert found.total.success_interval == (0.0, 1.0)
    assert found.total.mean_episode_s is None
    assert found.times.episodes_per_minute is None
    assert found.times.stages_s == {}


def test_restarts_and_remarks_add_up(tmp_path):
    def change(job, row):
        return replace(
            row,
            restarts=(restart(),) * (job.episode % 3 == 0),
            remarks={"out of reach": 2, "slow": 1} if job.task else {},
        )

    total = figures_of(
        entry_of(fabricate_evaluation(tmp_path, "a", plan=PLAN, change=change))
    ).total
    assert total.restarts == 5
    assert list(total.remarks.items()) == [("out of reach", 10), ("slow", 5)]


def test_the_stages_of_episodes_add_up_in_their_order(tmp_path):
    times = figures_of(
        entry_of(fabricate_evaluation(tmp_path, "a", plan=PLAN, change=outcome))
    ).times
    assert times.stages_s == {
        "resetting": 15.0,
        "simulate": 15.0,
        "render": 30.0,
        "queue": 3.75,
        "infer": 7.5,
        "other": 3.75,
    }
    assert list(times.stages_s) == ["resetting", "simulate", "render", "queue", "infer", "other"]


def test_sittings_and_machines_add_up(tmp_path):
    def place(name, **figures):
        return Place(
            name=name,
            host=HOST,
            envs=2,
            worker=Figures(**figures),
            simulators_s={"render": 30.0, "predicting": 10.0, "idle": 5.0, "dancing": 1.0},
        )

    bounds = (0.01, 0.1)
    first = place(
        "node-0",
        ready_s=100.0,
        busy_s=50.0,
        gathering_s=10.0,
        idle_s=40.0,
        served=30,
        batches={1: 10, 2: 10},
        infer_s=Histogram(bounds=bounds, counts=(15, 5, 0), total=1.0),
    )
    again = place(
        "node-0",
        ready_s=20.0,
        busy_s=10.0,
        idle_s=10.0,
        served=8,
        refused=1,
        batches={2: 4},
        max_batch=8,
        infer_s=Histogram(bounds=bounds, counts=(3, 0, 1), total=2.0),
    )
    other = place("node-1", ready_s=60.0, busy_s=6.0, idle_s=54.0, served=3, batches={1: 3})
    sittings = [
        Session(number=0, started_at="", wall_s=120.0, start_s=20.0, places=(first, other)),
        Session(number=1, started_at="", wall_s=50.0, start_s=30.0, places=(again,)),
        # One that ended before its first episode.
        Session(number=2, started_at="", wall_s=10.0),
    ]
    path = fabricate_evaluation(tmp_path, "a", plan=PLAN, change=outcome, sessions=tuple(sittings))
    found = figures_of(entry_of(path))
    assert (found.times.wall_s, found.times.playing_s) == (180.0, 120.0)
    assert found.times.episodes_per_minute == 7.5
    assert found.times.simulators_s == {
        "render": 90.0,
        "predicting": 30.0,
        "idle": 15.0,
        "dancing": 3.0,
    }
    node_0, node_1 = found.workers
    assert (node_0.place, node_0.starts, node_0.busy_share) == ("node-0", 2, 0.5)
    assert (node_0.served, node_0.refused) == (38, 1)
    assert node_0.batches == {1: 10, 2: 14}
    assert node_0.mean_batch == pytest.approx(38 / 24)
    assert node_0.infer_s == Histogram(bounds=bounds, counts=(18, 5, 1), total=3.0)
    assert node_0.queue_s is None
    assert node_0.meanwhile_s == {"render": 60.0, "idle": 10.0, "dancing": 2.0}
    assert node_1.busy_share == pytest.approx(0.1)


def test_a_borrowed_workers_counters_begin_with_each_sitting_and_are_added_up(tmp_path):
    rows = entry_of(fabricate_evaluation(tmp_path, "other", plan=PLAN)).folders[0].rows
    first = session_of(rows)
    path = fabricate_evaluation(
        tmp_path,
        "a",
        plan=replace(PLAN, endpoint="tcp://elsewhere:1", backend=None),
        sessions=(first, replace(first, number=1)),
    )
    (worker,) = figures_of(entry_of(path)).workers
    assert worker.borrowed
    assert worker.served == 2 * first.places[0].worker.served
    assert worker.ready_s == 2 * first.places[0].worker.ready_s
    assert worker.meanwhile_s["render"] == 2 * first.places[0].simulators_s["render"]


def test_a_run_has_no_worker_counters_and_plays_as_long_as_its_episodes_take(tmp_path):
    found = figures_of(entry_of(fabricate_run(tmp_path, "r")))
    assert found.workers == ()
    assert found.times.wall_s == 60.0
    assert found.times.playing_s == pytest.approx(found.total.mean_episode_s * 3)


def test_a_killed_run_has_no_pace(tmp_path):
    path = fabricate_run(tmp_path, "r")
    text = (path / "run.json").read_text()
    (path / "run.json").write_text(text.replace('"2026-11-30T09:51:00+00:00"', "null"))
    times = figures_of(entry_of(path)).times
    assert (times.wall_s, times.playing_s, times.episodes_per_minute) == (None, None, None)


def test_several_folders_of_one_result_add_up(tmp_path):
    paths = [fabricate_run(tmp_path, f"run-{task}", task=task) for task in range(3)]
    (entry,) = load_entries(paths)
    found = figures_of(entry)
    assert found.total.done == 9
    assert [task.task for task in found.suites[0].tasks] == [0, 1, 2]
    assert found.times.wall_s == 180.0


def test_a_quantile_is_the_bound_that_it_lies_below():
    histogram = Histogram(bounds=(1.0, 2.0, 4.0), counts=(5, 4, 0, 1), total=0.0)
    assert quantile(histogram, 0.5) == 1.0
    assert quantile(histogram, 0.9) == 2.0
    assert quantile(histogram, 0.95) is None


def test_a_sitting_of_the_builder_is_as_long_as_its_worker_was_ready(tmp_path):
    path = fabricate_evaluation(tmp_path, "a", plan=PLAN)
    rows = entry_of(path).folders[0].rows
    worker = session_of(rows).places[0].worker
    assert worker.ready_s == pytest.approx(worker.busy_s + worker.gathering_s + worker.idle_s)
