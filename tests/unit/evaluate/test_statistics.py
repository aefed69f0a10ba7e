# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.evaluate.statistics import Z_95, mean, total_stages, wilson_interval


@pytest.mark.parametrize(("successes", "trials"), [(48, 50), (5, 10), (1, 3), (199, 200)])
def test_both_ends_of_the_interval_solve_the_score_equation(successes, trials):
    rate = successes / trials
    low, high = wilson_interval(successes, trials)
    assert 0 < low < rate < high < 1
    for end in (low, high):
        assert (rate - end) ** 2 == pytest.approx(Z_95**2 * end * (1 - end) / trials)


def test_a_perfect_score_still_leaves_doubt():
    # With no failure the equation has the closed form n / (n + z²).
    assert wilson_interval(50, 50) == (pytest.approx(50 / (50 + Z_95**2)), 1.0)
    assert wilson_interval(0, 10) == (0.0, pytest.approx(Z_95**2 / (10 + Z_95**2)))


def test_no_trial_says_nothing():
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_more_successes_than_trials_are_refused():
    with pytest.raises(ValueError, match="3 successes in 2 trials"):
        wilson_interval(3, 2)


def test_the_mean_of_nothing_is_none():
    assert mean([]) is None
    assert mean([1, 2, 6]) == 3.0


def test_stages_add_up_by_name():
    totals = total_stages([{"simulate": 1.0, "render": 2.0}, {"simulate": 0.5}])
    assert totals == {"simulate": 1.5, "render": 2.0}
