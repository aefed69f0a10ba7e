# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from rpent_box.cli.show_eval import Ended, last_failures, render_evaluation, what_is_kept
from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.manifest import Place, Session
from rpent_box.evaluate.scale.plan import JobKey
from rpent_box.evaluate.scale.summary import summarize
from rpent_box.live.state import LiveState
from rpent_box.sim.manifest import HostFacts
from rpent_box.version import PROTOCOL_VERSION

HOST = HostFacts(
    rpent_box="0",
    protocol=PROTOCOL_VERSION,
    python="3",
    system="",
    cpu="",
    cores=2,
    git_revision=None,
)


def ended(
    story: Any, rows: Any, *, failed: Any = (), status: str = "complete", **changes: Any
) -> Ended:
    place = Place(
        name="",
        host=HOST,
        envs=2,
        simulators_s={"simulate": 30.0, "render": 60.0, "idle": 10.0},
        worker=Figures(
            ready_s=100.0, busy_s=63.0, gathering_s=2.0, idle_s=35.0, batches={1: 10, 2: 10},
            max_batch=8,
        ),
    )  # fmt: skip
    session = Session(
        number=0,
        started_at="",
        launcher="process",
        start_s=10.0,
        wall_s=130.0,
        episodes=len(rows),
        places=(place,),
    )
    manifest = story.manifest(
        status=status,
        sessions=(session,),
        **{"restarts": 0, "episodes_played": len(rows)} | changes,
    )
    keys = [JobKey(one.suite, one.task, one.init_state, one.seed) for one in failed]
    summary = summarize(manifest, story.run_dir, rows, keys)
    return Ended(summary=summary, manifest=manifest, rows=rows, failed=failed)


def shown(what: Ended) -> str:
    text = render_evaluation(what)
    assert all(len(line) <= 80 for line in text.splitlines() if "/runs" not in line), text
    return text


def test_a_complete_evaluation_shows_scores_times_the_worker_and_its_files(story: Any) -> None:
    whole = story()
    rows = [whole.row(job, success=job.init_state > 0) for job in whole.jobs]
    text = shown(ended(whole, rows))
    assert "\ntoy, suite_0, 2 tasks: complete\ntoy, by process, seed 7\n" in text
    lines = text.splitlines()
    assert "task                                done  success    95% interval  steps" in lines
    assert "0: reach_the_goal_number_0_and_st…  3/3     66.7%  20.8% to 93.9%   12.0" in lines
    assert "all                                 6/6     66.7%  30.0% to 90.3%   12.0" in lines
    assert "success    4 of 6: 66.7% (95% interval 30.0% to 90.3%)" in lines
    assert "steps      12.0 on average when solved" in lines
    assert "time       2 min 10 s: 3.0 episodes per minute on 2 simulators" in lines
    assert "           render       60.0 s    60%" in lines
    assert (
        "worker     63% computed, 2% held a batch open for company, 35% had nothing to do" in lines
    )
    assert "           1.5 observations per inference on average" in lines
    assert lines[-1] == "results    /runs/run-1"
    assert "missing" not in text


def test_several_suites_have_their_own_sums(story: Any) -> None:
    whole = story(suites=2)
    rows = [whole.row(job) for job in whole.jobs]
    lines = shown(ended(whole, rows)).splitlines()
    firsts = [line.split()[0] for line in lines if "100.0%" in line]
    assert firsts == ["suite_0", "0:", "1:", "suite_1", "0:", "1:", "all", "success"]


def test_an_incomplete_one_names_its_errors_and_how_to_go_on(story: Any) -> None:
    whole = story(run_dir="/runs/it's here")
    rows = [whole.row(job) for job in whole.jobs[:-1]]
    failed = [whole.failed(whole.jobs[-1], "the toy broke at reset\nTraceback")]
    text = render_evaluation(ended(whole, rows, failed=failed, status="incomplete"))
    assert "2 tasks: incomplete\n" in text
    assert "missing    1 of 6 has no result; the rate is of the others\n" in text
    assert "errors     1 episode ended in an error and has no result:\n" in text
    assert "           episode 5 (suite_0 1, init state 2): the toy broke at reset\n" in text
    assert "Traceback" not in text
    assert text.endswith("go on      rpent-box eval --resume '/runs/it'\"'\"'s here'\n")


def test_many_errors_are_counted(story: Any) -> None:
    whole = story(tasks=4)
    failed = [whole.failed(job) for job in whole.jobs]
    text = shown(ended(whole, [], failed=failed, status="incomplete"))
    assert "success    none of 12 episodes has a result\n" in text
    assert "and 7 more, in failed.jsonl\n" in text


def test_simulators_that_were_replaced_are_counted(story: Any) -> None:
    whole = story()
    rows = [whole.row(job) for job in whole.jobs]
    assert "again" not in shown(ended(whole, rows))
    assert "again      once a simulator hung or died" in shown(ended(whole, rows, restarts=1))
    assert "again      3 times a simulator hung" in shown(ended(whole, rows, restarts=3))


def test_only_the_last_attempt_at_an_episode_without_a_result_is_an_error(story: Any) -> None:
    whole = story()
    first, second = whole.jobs[:2]
    attempts = [whole.failed(first), whole.failed(second, "one"), whole.failed(second, "two")]
    assert last_failures(attempts, [whole.row(first)]) == [attempts[2]]


def test_what_is_kept_of_one_that_was_stopped_names_the_command_that_goes_on(story: Any) -> None:
    state = LiveState()
    assert what_is_kept(state.picture()) == ""
    whole = story()
    state.on_begin(whole.begun(whole.row(whole.jobs[0])))
    assert what_is_kept(state.picture()) == (
        "kept: 1 of 6 episodes are on the disk: /runs/run-1\n"
        "next: rpent-box eval --resume /runs/run-1"
    )
