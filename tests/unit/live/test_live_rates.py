# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.contracts.messages import Histogram
from rpent_box.live.histograms import Tally, cumulative, of_batches
from rpent_box.live.rates import Curve, Pace, RecentRate


def test_a_rate_is_of_the_window_and_unknown_for_too_few() -> None:
    rate = RecentRate(window_s=60.0, slice_s=5.0)
    for second in range(4):
        rate.add(float(second))
    assert rate.per_minute(10.0) is None
    rate.add(4.0)
    assert rate.per_minute(10.0) == pytest.approx(30.0), "of the ten seconds that there were"
    assert rate.per_minute(59.0) == pytest.approx(60 * 5 / 59)
    assert rate.per_minute(70.0) is None, "it is too long ago"


def test_a_rate_of_very_many_keeps_few_numbers() -> None:
    rate = RecentRate(window_s=60.0, slice_s=5.0)
    for number in range(100_000):
        rate.add(number / 100)
    assert rate.per_minute(1000.0) == pytest.approx(6000.0, rel=0.1)
    assert len(rate._slices) <= 13


def test_a_curve_keeps_its_length_and_its_sum_however_long_it_goes_on() -> None:
    curve = Curve(points=8, stretch_s=1.0)
    for second in range(1000):
        curve.add(float(second))
    curve.add(1023.5)
    values = curve.per_minute(1024.0)
    assert curve.stretch_s == 256.0
    assert len(values) == 4
    assert sum(values) * curve.stretch_s / 60 == pytest.approx(1001)
    assert values[0] == pytest.approx(60.0)


def test_the_present_stretch_of_a_curve_is_not_shown_as_a_fall() -> None:
    curve = Curve(points=8, stretch_s=10.0)
    for second in range(25):
        curve.add(float(second))
    assert curve.per_minute(25.0) == (60.0, 60.0)


def test_pace_begins_with_the_first_simulator() -> None:
    pace = Pace()
    assert (pace.elapsed_s(50.0), pace.overall(50.0)) == (0.0, None)
    pace.begin(100.0)
    pace.begin(110.0)
    pace.add(130.0)
    assert pace.elapsed_s(160.0) == 60.0
    assert pace.overall(160.0) == pytest.approx(1.0)


def test_bounds_are_inclusive_and_nothing_is_lost_above_the_last() -> None:
    tally = Tally((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        tally.add(value)
    histogram = tally.histogram()
    assert histogram == Histogram(bounds=(1.0, 2.0), counts=(2, 2, 1), total=14.0)
    assert cumulative(histogram) == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]


def test_batches_are_a_histogram_of_their_sizes() -> None:
    histogram = of_batches({1: 10, 2: 5, 3: 1})
    assert histogram.counts[:3] == (10, 5, 1)
    assert histogram.total == 10 + 10 + 3
