# SPDX-License-Identifier: Apache-2.0
import json

import msgspec
from eval_record_parts import JOBS, PLAN, begun, played
from msgspec.structs import replace

from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.manifest import Place, read_eval_manifest
from rpent_box.evaluate.scale.summary import summarize
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.sim.manifest import host_facts


def summary_of(folder, *, play, fail=(), places=()):
    with begun(folder) as record:
        record.playing()
        for job in fail:
            record.fail(job, code="x", message="y")
        for job in play:
            row = played(job, steps=10 + job.episode, stages_s={"simulate": 0.5})
            record.add(row, simulator="0")
        for place in places:
            record.place(place)
    manifest = read_eval_manifest(record.run_dir)
    return manifest, summarize(manifest, str(record.run_dir), record.rows, record.failed)


def test_tasks_suites_and_the_whole_are_counted(tmp_path):
    _, summary = summary_of(tmp_path, play=JOBS[:6], fail=(JOBS[6], JOBS[0]))
    assert summary.status == "incomplete"
    assert [(one.name, one.done, one.failed, one.successes) for one in summary.tasks] == [
        ("task 0", 4, 0, 2),
        ("task 1", 2, 1, 1),
        ("task 0", 0, 0, 0),
    ]
    assert [(one.suite, one.episodes, one.done) for one in summary.suites] == [
        ("toy_easy", 8, 6),
        ("toy_hard", 4, 0),
    ]
    total = summary.total
    assert (total.episodes, total.done, total.failed, total.successes) == (12, 6, 1, 3)
    assert total.success_rate == 0.5
    assert total.success_interval == wilson_interval(3, 6)
    assert (total.mean_steps, total.mean_success_steps) == (12.5, 12.0)
    assert summary.stages_s == {"simulate": 3.0}
    empty = summary.tasks[2]
    assert (empty.success_rate, empty.mean_steps, empty.success_interval) == (None, None, (0, 1))


def test_the_last_sitting_says_how_fast_it_went_and_how_busy_workers_were(tmp_path):
    figures = Figures(ready_s=10.0, busy_s=4.0)
    places = [
        Place(name=f"node-{number}", host=host_facts(), envs=3, worker=figures, worker_starts=2)
        for number in range(2)
    ]
    manifest, _ = summary_of(tmp_path, play=JOBS, places=places)
    (session,) = manifest.sessions
    session = replace(session, wall_s=70.0, start_s=10.0)
    earlier = replace(session, wall_s=30.0, places=())
    manifest = replace(manifest, sessions=(earlier, session))
    summary = summarize(manifest, "/runs/x", (), ())
    assert summary.episodes_per_minute == 12.0
    assert summary.worker_busy_share == 0.4
    assert (summary.envs, summary.worker_starts, summary.sittings) == (6, 4, 2)
    assert summary.wall_s == 100.0


def test_nothing_played_is_a_summary_too(tmp_path):
    manifest, summary = summary_of(tmp_path, play=())
    assert summary.episodes_per_minute is None
    assert summary.worker_busy_share is None
    assert (summary.backend, summary.seeds) == (PLAN.backend, PLAN.seeds)
    bare = summarize(replace(manifest, sessions=()), "/runs/x", (), ())
    assert (bare.envs, bare.wall_s) == (0, 0)
    assert json.loads(msgspec.json.encode(bare))["total"]["episodes"] == 12
