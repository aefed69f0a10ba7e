# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from msgspec import structs

from rpent_box.evaluate.scale.manifest import FailedAttempt
from rpent_box.evaluate.scale.plan import Job, TaskKey
from rpent_box.evaluate.scale.remaining import Costs, Outlook, overhead, seconds_left
from rpent_box.sim.results import EpisodeRow

EASY, HARD = TaskKey("suite", 0), TaskKey("suite", 1)


def job(episode: int, task: int = 0, max_steps: int = 100) -> Job:
    return Job(
        episode=episode, suite="suite", task=task, init_state=episode, seed=7, max_steps=max_steps
    )


def row(of: Job, *, wall_s: float, setup_s: float = 0.0, simulator: str = "0") -> EpisodeRow:
    return EpisodeRow(
        run="run",
        finished_at="",
        suite=of.suite,
        task=of.task,
        init_state=of.init_state,
        episode=of.episode,
        seed=of.seed,
        instruction="",
        success=True,
        steps=50,
        predictions=5,
        execute_steps=10,
        max_steps=of.max_steps,
        wall_s=wall_s,
        setup_s=setup_s,
        stages_s={},
        actions_sha256="",
        first_frames_sha256="",
        simulator=simulator,
    )


def failed(of: Job) -> FailedAttempt:
    return FailedAttempt(
        episode=of.episode,
        suite=of.suite,
        task=of.task,
        init_state=of.init_state,
        seed=of.seed,
        code="simulator",
        message="it broke",
        simulator="0",
        at="",
    )


def test_nothing_is_guessed_before_anything_was_played() -> None:
    assert Costs().seconds(EASY, 100) is None
    outlook = Outlook()
    outlook.expect([job(0)], [])
    assert outlook.seconds_left(10.0) is None


def test_an_unknown_task_costs_what_others_of_its_suite_have_cost() -> None:
    quick, slow = job(0), structs.replace(job(1), suite="slow")
    costs = Costs([row(quick, wall_s=10.0), row(slow, wall_s=50.0)])
    assert costs.seconds(TaskKey("slow", 9), 100) == pytest.approx(50.0)
    assert costs.seconds(TaskKey("suite", 9), 200) == pytest.approx(20.0)
    # Of a suite that nobody has played, all others tell.
    assert costs.seconds(TaskKey("new", 0), 100) == pytest.approx(30.0)


def test_a_task_costs_what_it_has_cost_and_an_unknown_one_by_its_step_limit() -> None:
    costs = Costs([row(job(0), wall_s=8.0, setup_s=2.0), row(job(1), wall_s=12.0, setup_s=2.0)])
    assert costs.seconds(EASY, 100) == pytest.approx(12.0)
    assert costs.seconds(HARD, 300) == pytest.approx(2.0 + 30.0)


@pytest.mark.parametrize(
    ("waiting", "ages", "simulators", "expected"),
    [
        (10, [], 1, 100.0),
        (10, [], 5, 20.0),
        # The last one is played alone, however many could help.
        (1, [], 8, 10.0),
        (0, [4.0], 8, 6.0),
        # One that takes longer than others did may end at any moment.
        (0, [25.0], 8, 0.0),
        (2, [5.0, 5.0], 2, 15.0),
        (0, [], 2, 0.0),
    ],
)
def test_simulators_share_what_is_left(
    waiting: int, ages: list[float], simulators: int, expected: float
) -> None:
    costs = Costs([row(job(0), wall_s=10.0)])
    playing = [(job(number), age_s) for number, age_s in enumerate(ages)]
    left = seconds_left(
        costs, waiting={(EASY, 100): waiting}, playing=playing, simulators=simulators
    )
    assert left == pytest.approx(expected)


def test_what_lies_between_episodes_counts_and_a_single_loss_is_not_taken_for_the_rule() -> None:
    assert overhead(30.0, 20.0) == pytest.approx(1.5)
    assert overhead(10.0, 20.0) == 1.0
    assert overhead(5.0, 0.0) == 1.0
    assert overhead(1000.0, 1.0) == 10.0


def test_the_outlook_follows_an_evaluation_from_its_start_to_its_end() -> None:
    jobs = [job(number) for number in range(6)]
    outlook = Outlook()
    outlook.expect(jobs, [row(jobs[0], wall_s=10.0)])
    outlook.plays_on("", 2)
    # From an earlier sitting it is known what one costs.
    assert outlook.seconds_left(0.0) == pytest.approx(25.0)
    for simulator, number in (("0", 1), ("1", 2)):
        outlook.moved(simulator, jobs[number], 0.0)
    assert outlook.seconds_left(5.0) == pytest.approx((3 * 10 + 2 * 5) / 2)
    outlook.played(row(jobs[1], wall_s=10.0, simulator="0"), 10.0)
    outlook.moved("0", jobs[3], 10.0)
    outlook.played(row(jobs[2], wall_s=10.0, simulator="1"), 10.0)
    assert outlook.seconds_left(10.0) == pytest.approx((2 * 10 + 10) / 2)
    for number in (3, 4, 5):
        outlook.moved("1", jobs[number], 10.0)
        outlook.played(row(jobs[number], wall_s=10.0, simulator="1"), 20.0)
    assert outlook.seconds_left(20.0) == 0.0


def test_an_episode_that_is_begun_again_waits_again_and_its_loss_slows_everything() -> None:
    jobs = [job(number) for number in range(3)]
    outlook = Outlook()
    outlook.expect(jobs, [])
    outlook.plays_on("", 1)
    outlook.moved("0", jobs[0], 0.0)
    outlook.played(row(jobs[0], wall_s=10.0), 10.0)
    outlook.moved("0", jobs[1], 10.0)
    outlook.lost("0")
    # Twenty seconds that brought ten: what is left will take twice as long too.
    assert outlook.seconds_left(20.0) == pytest.approx(2 * 10 * 2.0)
    outlook.moved("0", jobs[1], 20.0)
    assert outlook.seconds_left(20.0) == pytest.approx(2 * 10 * 2.0)


def test_what_ended_in_an_error_is_waited_for_no_more() -> None:
    jobs = [job(number) for number in range(3)]
    outlook = Outlook()
    outlook.expect(jobs, [row(jobs[0], wall_s=10.0)])
    outlook.plays_on("", 1)
    outlook.moved("0", jobs[1], 0.0)
    outlook.failed(failed(jobs[1]))
    assert outlook.seconds_left(0.0) == pytest.approx(10.0)


def test_a_machine_that_is_lost_gives_its_episodes_back() -> None:
    jobs = [job(number) for number in range(4)]
    outlook = Outlook()
    outlook.expect(jobs, [row(jobs[0], wall_s=10.0)])
    for place in ("node-0", "node-1"):
        outlook.plays_on(place, 1)
    outlook.moved("node-0/0", jobs[1], 0.0)
    outlook.moved("node-1/0", jobs[2], 0.0)
    assert outlook.seconds_left(0.0) == pytest.approx(15.0)
    outlook.plays_on("node-1", 0)
    assert outlook.seconds_left(0.0) == pytest.approx(30.0)


def test_only_what_was_of_late_slows_what_is_to_come() -> None:
    jobs = [job(number) for number in range(120)]
    outlook = Outlook()
    outlook.expect(jobs, [])
    outlook.plays_on("", 1)
    now = 0.0
    for number in range(100):
        outlook.moved("0", jobs[number], now)
        now += 30.0 if number < 20 else 10.0
        outlook.played(row(jobs[number], wall_s=10.0), now)
    assert outlook.seconds_left(now) == pytest.approx(200.0, rel=0.05)


def test_a_simulator_that_left_slows_nothing() -> None:
    jobs = [job(number) for number in range(30)]
    outlook = Outlook()
    outlook.expect(jobs, [])
    outlook.plays_on("", 2)
    outlook.moved("1", jobs[0], 0.0)
    outlook.played(row(jobs[0], wall_s=10.0, simulator="1"), 10.0)
    outlook.plays_on("", 1)
    for number in range(1, 10):
        outlook.moved("0", jobs[number], 10.0 * number)
        outlook.played(row(jobs[number], wall_s=10.0, simulator="0"), 10.0 * (number + 1))
    assert outlook.seconds_left(100.0) == pytest.approx(20 * 10, rel=0.01)
