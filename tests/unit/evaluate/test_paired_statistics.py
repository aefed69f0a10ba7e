# SPDX-License-Identifier: Apache-2.0
import math
import random

import pytest

from rpent_box.evaluate.statistics import (
    holm,
    mcnemar_exact,
    median,
    median_interval,
    paired_difference_interval,
    wilson_interval,
)

PUBLISHED = [
    # (both, only the first, only the second, neither), difference and its 95 % interval.
    # Fagerland, Lydersen, Laake, "Statistical Analysis of Contingency Tables" (2017), chapter 8,
    # complete response before and after consolidation therapy (Cavo et al. 2012), and airway
    # hyper-responsiveness before and after stem cell transplantation (Bentur et al. 2009).
    ((59, 6, 16, 80), (0.0621, 0.0046, 0.1186)),
    ((1, 1, 7, 12), (0.2857, 0.026, 0.507)),
]


@pytest.mark.parametrize(("table", "wanted"), PUBLISHED)
def test_the_interval_of_a_paired_difference_is_the_published_one(table, wanted):
    difference, low, high = wanted
    both, first, second, neither = table
    digits = 4 if low == 0.0046 else 3
    found = paired_difference_interval(*table)
    assert (second - first) / sum(table) == pytest.approx(difference, abs=5e-5)
    assert [round(bound, digits) for bound in found] == [low, high]
    mirrored = paired_difference_interval(both, second, first, neither)
    assert mirrored == pytest.approx((-found[1], -found[0]))


def test_pairs_that_never_differ_still_leave_doubt():
    # Without a failure the correlation is not known, and both Wilson intervals have one side only.
    low, _ = wilson_interval(50, 50)
    assert paired_difference_interval(50, 0, 0, 0) == pytest.approx((low - 1, 1 - low))
    assert paired_difference_interval(0, 0, 0, 0) == (-1.0, 1.0)


def test_the_interval_holds_the_difference_and_stays_within_bounds():
    chance = random.Random(7)
    for _ in range(500):
        table = [chance.randrange(6) for _ in range(4)]
        if sum(table):
            low, high = paired_difference_interval(*table)
            assert -1 <= low <= (table[2] - table[1]) / sum(table) <= high <= 1


def test_perfectly_equal_outcomes_make_a_narrower_interval_than_unrelated_ones():
    equal = paired_difference_interval(50, 0, 0, 50)
    unrelated = paired_difference_interval(25, 25, 25, 25)
    assert equal[1] - equal[0] < 0.2 * (unrelated[1] - unrelated[0])


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        # As a binomial test with 1/2 gives them, to the last digit.
        (6, 16, 0.052478790283203125),
        (0, 6, 0.03125),
        (1, 9, 0.021484375),
        (25, 11, 0.028816719655878842),
        (0, 1, 1.0),
        (0, 0, 1.0),
        (7, 7, 1.0),
    ],
)
def test_the_exact_test_is_the_sign_test_of_pairs_that_differ(first, second, wanted):
    assert mcnemar_exact(first, second) == pytest.approx(wanted, rel=1e-14)
    assert mcnemar_exact(second, first) == mcnemar_exact(first, second)


def test_the_exact_test_holds_for_more_pairs_than_floats_have_powers_of_two():
    assert mcnemar_exact(2000, 2200) == pytest.approx(0.00213, rel=0.02)
    with pytest.raises(ValueError, match="-1 and 3 pairs"):
        mcnemar_exact(-1, 3)


def test_many_tests_are_corrected_step_by_step_and_in_their_own_order():
    assert holm([0.01, 0.04, 0.03, 0.005, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.5])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_interval_of_a_median_ends_at_two_of_the_values():
    assert median_interval(list(range(1, 26))) == (8, 18)
    assert median_interval([6, 5, 4, 3, 2, 1]) == (1, 6)
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([]) is None


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    chance = random.Random(3)
    held = 0
    for _ in range(2000):
        low, high = median_interval([chance.expovariate(1) for _ in range(20)])
        held += low <= math.log(2) <= high
    assert held / 2000 >= 0.94


def test_the_median_is_the_middle_one_or_between_two():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5
    assert median([]) is None
