# SPDX-License-Identifier: Apache-2.0
from math import comb

import pytest

from rpent_box.evaluate.power import detectable_difference, shown_with
from rpent_box.evaluate.statistics import mcnemar_exact


def by_counting(pairs, discordant, difference):
    """Add up the chance of every outcome that the test calls a difference."""
    better, worse = (discordant + difference) / 2, (discordant - difference) / 2
    return sum(
        comb(pairs, b)
        * comb(pairs - b, c)
        * better**b
        * worse**c
        * (1 - discordant) ** (pairs - b - c)
        for b in range(pairs + 1)
        for c in range(pairs + 1 - b)
        if mcnemar_exact(b, c) <= 0.05
    )


@pytest.mark.parametrize(
    ("pairs", "discordant", "difference"),
    [(20, 0.5, 0.3), (12, 0.6, 0.6), (30, 0.2, 0.0), (6, 1.0, 1.0), (9, 0.0, 0.0)],
)
def test_the_chance_to_show_a_difference_is_that_of_the_outcomes_which_show_it(
    pairs, discordant, difference
):
    counted = by_counting(pairs, discordant, difference)
    assert shown_with(pairs, discordant, difference) == pytest.approx(counted, abs=1e-7)


def test_what_could_have_been_shown_is_shown_that_often_and_no_less():
    found = detectable_difference(100, 0.2)
    assert 0.1 < found < 0.2
    assert shown_with(100, 0.2, found) == pytest.approx(0.8, abs=1e-4)


def test_more_episodes_show_smaller_differences():
    found = [detectable_difference(pairs, 0.2) for pairs in (20, 50, 200, 1000)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.05


def test_five_pairs_can_show_nothing():
    assert detectable_difference(5, 0.4) is None
    assert detectable_difference(0, 0.0) is None
    # Six that all favour one are just enough: p = 1/32.
    assert detectable_difference(6, 0.0) == pytest.approx(0.8 ** (1 / 6), abs=1e-4)
