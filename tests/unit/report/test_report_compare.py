# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from fabricated_runs import (
    HOST,
    META,
    WORKER,
    fabricate_evaluation,
    fabricate_run,
    plan_of,
    session_of,
)
from msgspec.structs import replace

from rpent_box.evaluate.scale.plan import JobKey
from rpent_box.evaluate.statistics import holm, mcnemar_exact, paired_difference_interval
from rpent_box.report.compare import compare
from rpent_box.report.load import load_pair

PLAN = plan_of({"libero_spatial": 2}, episodes=20)


def solving(*unsolved):
    """Solve all episodes but those."""

    def change(job, row):
        success = job.episode not in unsolved
        return replace(row, success=success, steps=50 + job.episode if success else job.max_steps)

    return change


def pair(tmp_path, a=None, b=None, **both):
    return load_pair(
        fabricate_evaluation(tmp_path, "a", **{"plan": PLAN, **both, **(a or {})}),
        fabricate_evaluation(tmp_path, "b", **{"plan": PLAN, **both, **(b or {})}),
    )


def test_outcomes_are_counted_pair_by_pair(tmp_path):
    found = compare(
        *pair(tmp_path, {"change": solving(0, 1, 2)}, {"change": solving(2, *range(20, 30))})
    )
    total = found.total
    outcomes = total.outcomes
    assert (outcomes.both, outcomes.only_a, outcomes.only_b, outcomes.neither) == (27, 10, 2, 1)
    assert (total.rate_a, total.rate_b) == (37 / 40, 29 / 40)
    assert total.difference == pytest.approx(-0.2)
    assert total.p == mcnemar_exact(10, 2)
    assert total.interval == paired_difference_interval(27, 10, 2, 1)
    assert found.verdict == "differ"
    assert found.sentence.startswith(
        "They differ. B's success rate is 20.0 points below A's over 40"
    )


def test_tasks_are_tested_each_and_corrected_together(tmp_path):
    found = compare(*pair(tmp_path, {"change": solving()}, {"change": solving(*range(20, 27))}))
    first, second = found.tasks
    assert (first.task, first.p, first.difference) == (0, 1.0, 0.0)
    assert (second.task, second.p) == (1, mcnemar_exact(7, 0))
    assert [first.p_holm, second.p_holm] == holm([first.p, second.p])
    assert second.name == "pick_up_the_cookie_box_and_place_it_on_the_plate"
    assert second.instruction == "pick up the cookie box and place it on the plate"


def test_no_difference_shown_is_not_called_equal(tmp_path):
    found = compare(*pair(tmp_path, {"change": solving(0)}, {"change": solving(1)}))
    assert found.verdict == "no difference shown"
    assert "which does not make them equal" in found.sentence
    assert "equal to A's" in found.sentence
    assert f"A true difference of {100 * found.detectable:.1f} points would be" in found.sentence


def test_a_result_is_no_different_from_itself_played_again(tmp_path):
    found = compare(*pair(tmp_path, skill=0.6))
    assert found.verdict == "no difference shown"
    assert found.sentence.startswith("They did the same: in each of 40 shared episodes, first")
    assert found.total.p == 1.0
    assert found.same.scenes == found.same.actions == found.total.pairs == 40
    assert found.differences == ()
    assert "Left out" not in found.sentence


def test_few_episodes_could_show_nothing(tmp_path):
    plan = plan_of({"libero_spatial": 1}, episodes=5)
    found = compare(
        *pair(tmp_path, {"change": solving()}, {"change": solving(*range(5))}, plan=plan)
    )
    assert found.total.p == 0.0625
    assert found.detectable is None
    assert "So few episodes could hardly have shown any" in found.sentence


def test_what_is_left_out_is_said_with_the_verdict(tmp_path):
    found = compare(*pair(tmp_path, {"failed": (3, 4)}, {"played": 39}))
    assert found.total.pairs == 37
    assert found.sentence.endswith(
        " Left out: 1 episode that only A has played and 2 episodes that only B has played."
    )
    assert (found.a.asked, found.a.played, found.b.asked, found.b.played) == (40, 38, 40, 39)


def test_episodes_of_one_side_only_are_listed_and_not_counted(tmp_path):
    more = plan_of({"libero_spatial": 2, "libero_object": 1}, episodes=20)
    found = compare(*pair(tmp_path, {"plan": more, "failed": (3,)}, {"played": 39}))
    assert found.total.pairs == 38
    assert found.only_in_b == (JobKey("libero_spatial", 0, 3, 7),)
    assert len(found.only_in_a) == 21
    assert JobKey("libero_spatial", 1, 19, 7) in found.only_in_a
    assert found.a.played == 59


def test_nothing_in_common_is_no_comparison(tmp_path):
    found = compare(*pair(tmp_path, {}, {"plan": plan_of({"libero_spatial": 2}, seeds=(8,))}))
    assert found.verdict == "no episode in common"
    assert found.total.rate_a is None
    assert (found.tasks, found.detectable, found.steps.pairs) == ((), None, 0)
    assert len(found.only_in_a) == 40


def test_steps_are_compared_where_both_solved(tmp_path):
    def slower(job, row):
        return replace(solving(5)(job, row), steps=53 + job.episode)

    found = compare(*pair(tmp_path, {"change": solving(0)}, {"change": slower}))
    steps = found.steps
    assert (steps.pairs, steps.median_difference, steps.interval) == (38, 3, (3, 3))
    assert steps.median_b - steps.median_a == 3


def test_another_scene_or_sentence_is_noticed(tmp_path):
    def elsewhere(job, row):
        if job.episode < 4:
            return replace(row, first_frames_sha256="0" * 64, instruction="do something else")
        return row

    found = compare(*pair(tmp_path, {}, {"change": elsewhere}))
    assert found.same.scenes == found.same.instructions == 36
    assert found.same.actions == 40


def test_a_simulator_that_does_not_repeat_itself_is_noticed(tmp_path):
    found = compare(*pair(tmp_path, {"change": solving(1, 2)}, {"change": solving(2)}))
    assert found.same.contradictions == 1
    assert not found.sentence.startswith("They did the same")


def test_what_differed_is_told_and_what_decides_comes_first(tmp_path):
    worker = replace(WORKER, meta=replace(META, checkpoint="step_30000", max_batch=4))
    session = session_of([], envs=9)
    place = replace(session.places[0], host=replace(HOST, cpu="another one"))
    found = compare(
        *pair(
            tmp_path,
            {},
            {"worker": worker, "sessions": (replace(session, places=(place,)),)},
        )
    )
    told = [(one.kind, one.path, one.a, one.b) for one in found.differences]
    assert told == [
        ("decides", "worker.meta.checkpoint", "built-in", "step_30000"),
        ("may", "worker.meta.max_batch", "16", "4"),
        ("may", "host.cpu", "AMD EPYC 9454", "another one"),
        ("how", "simulators", "4", "9"),
    ]


def test_other_limits_of_steps_are_a_difference_that_decides(tmp_path):
    longer = replace(PLAN, tasks=(replace(PLAN.tasks[0], max_steps=300), PLAN.tasks[1]))
    found = compare(*pair(tmp_path, {}, {"plan": longer}, change=solving()))
    (one,) = found.differences
    assert one.path == "episodes.max_steps (libero_spatial 0)"
    assert (one.kind, one.a, one.b) == ("decides", "220", "300")


def test_a_run_and_an_evaluation_are_compared_in_the_same_words(tmp_path):
    a = fabricate_evaluation(tmp_path, "a", plan=plan_of({"libero_spatial": 1}), checkpoint=None)
    found = compare(*load_pair(a, fabricate_run(tmp_path, "b", episodes=10)))
    assert found.total.pairs == 10
    assert found.same.actions == 10
    assert {one.kind for one in found.differences} == {"how"}
