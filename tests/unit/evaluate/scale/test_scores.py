# SPDX-License-Identifier: Apache-2.0
from fabricated_runs import plan_of, row_for
from msgspec.structs import replace

from rpent_box.evaluate.scale.scores import score_of
from rpent_box.evaluate.statistics import wilson_interval

JOBS = plan_of({"libero_spatial": 1}, episodes=4, seeds=(7, 8)).jobs()
KEYS = [job.key for job in JOBS]


def row(number: int, *, success: bool, steps: int):
    played = row_for(JOBS[number], run="a", skill=1.0)
    return replace(played, success=success, steps=steps)


def test_rates_are_of_results_and_what_is_missing_is_counted_beside_them():
    rows = [row(0, success=True, steps=10), row(1, success=True, steps=30)]
    rows.append(row(5, success=False, steps=80))
    found = score_of(KEYS, rows, [KEYS[2], KEYS[3], KEYS[3]])
    assert (found.episodes, found.done, found.failed, found.successes) == (8, 3, 2, 2)
    assert found.success_rate == 2 / 3
    assert found.success_interval == wilson_interval(2, 3)
    assert (found.mean_steps, found.mean_success_steps) == (40, 20)


def test_an_error_that_a_later_attempt_made_good_is_no_failure():
    found = score_of(KEYS, [row(0, success=False, steps=80)], [KEYS[0], KEYS[1]])
    assert (found.done, found.failed, found.successes) == (1, 1, 0)
    assert found.mean_success_steps is None


def test_nothing_played_has_no_rate():
    found = score_of(KEYS, [], KEYS)
    assert (found.done, found.failed, found.success_rate) == (0, 8, None)
    assert found.success_interval == (0.0, 1.0)
