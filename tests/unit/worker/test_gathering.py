# SPDX-License-Identifier: Apache-2.0
"""When a batch is held open. On a clock that is only counted: nothing here waits."""

from __future__ import annotations

import pytest
from batching_simulation import Question
from batching_trial import trial
from batching_workloads import MODELS, PAUSES, Workload, workloads

from rpent_box.worker.gathering import FixedGathering, TunedGathering
from rpent_box.worker.inference_cost import InferenceCost
from rpent_box.worker.returns import Returns

FREE = (0.1, 0.001)
"""An inference whose time is nearly all fixed."""


def tuned(costs: tuple[float, float] = FREE, *, pauses_s: dict[bytes, float]) -> TunedGathering:
    """A rule that has seen each of these connections pause for so long, and all answered at 0."""
    rule = TunedGathering()
    for _ in range(5):
        for size in (1, 4):
            rule.inferred(size, costs[0] + costs[1] * size)
    for connection, pause_s in pauses_s.items():
        rule.asked(connection, -100.0)
        for at in range(-20, 0):
            rule.answered(connection, float(at))
            rule.asked(connection, at + pause_s)
        rule.answered(connection, 0.0)
    return rule


def held_s(rule: TunedGathering | FixedGathering, *waiting: Question, at: float, room: int = 8):
    return max(0.0, rule.hold_until(at, waiting, room=room, since=at) - at)


def test_one_who_is_due_soon_is_waited_for():
    rule = tuned(pauses_s={b"b": 0.21})
    assert held_s(rule, Question(b"a", 0.2), at=0.2) == pytest.approx(0.01, abs=0.001)


def test_nobody_is_waited_for_who_is_due_later_than_going_at_once_costs():
    rule = tuned(pauses_s={b"b": 0.26})
    assert held_s(rule, Question(b"a", 0.2), at=0.2) == 0.0


def test_the_more_wait_the_less_is_one_more_waited_for():
    rule = tuned(pauses_s={b"z": 0.22})
    alone, crowd = [Question(b"a", 0.2)], [Question(b"%d" % n, 0.2) for n in range(6)]
    assert held_s(rule, *alone, at=0.2) > 0.0
    assert held_s(rule, *crowd, at=0.2) == 0.0


def test_a_model_whose_time_goes_by_the_observation_waits_for_nobody():
    rule = tuned((0.001, 0.02), pauses_s={b"b": 0.201, b"c": 0.202})
    assert held_s(rule, Question(b"a", 0.2), at=0.2) == 0.0


def test_one_that_is_overdue_is_not_expected_any_more():
    rule = tuned(pauses_s={b"b": 0.19})
    assert held_s(rule, Question(b"a", 0.2), at=0.2) == 0.0


def test_one_that_has_been_reset_or_has_ended_is_not_expected():
    for leave in ("interrupted", "forget"):
        rule = tuned(pauses_s={b"b": 0.21})
        getattr(rule, leave)(b"b")
        assert held_s(rule, Question(b"a", 0.2), at=0.2) == 0.0


def test_all_holding_of_a_batch_together_is_never_longer_than_the_fixed_part():
    rule = tuned(pauses_s={b"%d" % n: 0.2 + 0.01 * n for n in range(1, 100)})
    now = since = 0.2
    batch = [Question(b"a", 0.2)]
    while (until := rule.hold_until(now, batch, room=8, since=since)) > now:
        now = until  # nobody comes after all
    assert 0.0 < now - since <= FREE[0] + 1e-9


def test_nobody_misses_a_deadline_for_company():
    rule = tuned(pauses_s={b"b": 0.21})
    takes_s = FREE[0] + 9 * FREE[1]
    for spare_s, held in ((0.005, 0.0), (0.5, 0.01)):
        hurried = Question(b"a", 0.2, deadline=0.2 + takes_s + spare_s)
        assert held_s(rule, hurried, at=0.2) == pytest.approx(held, abs=0.001)


def test_a_fixed_wait_ends_when_all_who_asked_lately_are_there():
    rule = FixedGathering(0.5)
    for connection in (b"a", b"b"):
        rule.asked(connection, 1.0)
    rule.asked(b"long ago", -60.0)
    assert held_s(rule, Question(b"a", 1.0), at=1.0) == 0.5
    assert held_s(rule, Question(b"a", 1.0), Question(b"b", 1.1), at=1.1) == 0.0


def test_the_cost_is_learned_despite_a_slow_first_batch_and_a_pause_of_the_machine():
    cost = InferenceCost()
    for size in (1, 2, 8):
        for seconds in [3.0, *[0.05 + 0.01 * size] * 6, 9.0, *[0.05 + 0.01 * size] * 2]:
            cost.add(size, seconds)
    assert (cost.fixed_s, cost.each_s) == pytest.approx((0.05, 0.01))
    assert cost.of(4) == pytest.approx(0.09)


def test_one_slow_beginning_holds_nobody_up():
    """A model that was compiled at its first question: nobody waits as long as that took."""
    cost = InferenceCost()
    for seconds in (60.0, 0.05):
        cost.add(1, seconds)
    assert cost.fixed_s == 0.05


def test_a_size_that_was_slow_and_is_not_seen_any_more_holds_nobody_up():
    cost = InferenceCost()
    for seconds in (60.0, 50.0):
        cost.add(1, seconds)
    for _ in range(3):
        cost.add(2, 0.05)
    assert cost.fixed_s == 0.05


def test_the_cost_follows_a_machine_that_becomes_slower():
    cost = InferenceCost()
    for factor in (1, 3):
        for _ in range(20):
            for size in (1, 4):
                cost.add(size, factor * (0.05 + 0.01 * size))
    assert (cost.fixed_s, cost.each_s) == pytest.approx((0.15, 0.03))


def test_nothing_costs_less_than_nothing():
    cost = InferenceCost()
    assert cost.of(3) == 0.0
    for size, seconds in ((1, 0.01), (8, 0.2), (2, 0.3), (16, 0.001)):
        for _ in range(3):
            cost.add(size, seconds)
        assert cost.fixed_s >= 0.0
        assert cost.each_s >= 0.0


def test_a_return_is_as_likely_as_the_last_pauses_say():
    returns = Returns()
    returns.asked(b"a", 0.0)
    for pause_s in (0.1, 0.1, 0.3):
        returns.answered(b"a", 0.0)
        returns.asked(b"a", pause_s)
    returns.answered(b"a", 0.0)
    assert returns.expected(0.0, 0.2) == [(0.1, 0.25), (0.1, 0.25)]
    assert returns.expected(0.2, 1.0) == [(pytest.approx(0.1), 0.5)]
    returns.asked(b"a", 0.25)
    assert returns.expected(0.25, 1.0) == []


def test_company_is_tried_where_nobody_would_ever_wait_for_it():
    """Two who ask by turns always find the model busy with the other: only a try can show."""
    load = Workload("two", 2, PAUSES["quick"], *MODELS["batch free"])
    tried = trial(load, predictions=40, seeds=[0])
    assert tried.fixed_hz[20] < 10.0
    assert tried.of_best > 1.3


def test_the_tuned_rule_is_about_as_good_as_the_best_fixed_wait_in_every_workload():
    trials = [trial(load, predictions=25, seeds=[0]) for load in workloads((2, 8, 16))]
    worst = min(trials, key=lambda one: one.of_best)
    assert worst.of_best > 0.94, worst
    for one in trials:
        alone_s = one.load.fixed_s + one.load.each_s
        assert one.p99_over_best_s < 1.5 * alone_s, one
    assert sum(one.of_best for one in trials) / len(trials) > 1.0
