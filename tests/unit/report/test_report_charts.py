# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from rpent_box.contracts.messages import Histogram
from rpent_box.report import charts


def svg(markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup))


def of_class(picture, name):
    return [one for one in picture.iter() if name in one.get("class", "").split()]


@pytest.mark.parametrize(("rate", "bounds"), [(0.5, (0.2, 0.8)), (1.0, (0.7, 1.0)), (0, (0, 0.3))])
def test_a_rate_stands_where_it_is_on_the_track(rate, bounds):
    picture = svg(charts.rate_bar(rate, bounds))
    (point,) = of_class(picture, "point")
    (interval,) = of_class(picture, "interval")
    assert float(point.get("cx")) == pytest.approx(240 * rate, abs=0.01)
    assert float(interval.get("x")) == pytest.approx(240 * bounds[0], abs=0.01)
    assert float(interval.get("width")) == pytest.approx(240 * (bounds[1] - bounds[0]), abs=0.02)
    assert picture.get("role") == "img"


def test_a_rate_that_there_is_not_is_an_empty_track():
    picture = svg(charts.rate_bar(None, (0, 1)))
    assert of_class(picture, "point") == []
    assert picture.get("aria-label") == "nothing was played"


def test_a_difference_is_drawn_from_the_middle_and_kept_within():
    picture = svg(charts.difference_bar(0.25, (-0.9, 0.5), reach=0.5, is_shown=True))
    (point,), (interval,) = of_class(picture, "point"), of_class(picture, "interval")
    assert float(point.get("cx")) == 180
    assert (float(interval.get("x")), float(interval.get("width"))) == (0, 240)
    assert "shown" in point.get("class").split()
    hidden = svg(charts.difference_bar(0.0, (-0.1, 0.1), reach=1.0, is_shown=False))
    assert of_class(hidden, "unshown")


def test_columns_are_as_high_as_there_are_episodes():
    picture = svg(charts.lengths([1, 10, 11, 95], [100, 100, 100], 100))
    solved, unsolved = of_class(picture, "solved"), of_class(picture, "unsolved")
    heights = [float(one.get("height")) for one in (*solved, *unsolved)]
    whole = max(heights)
    # Twenty columns of five steps: 1; 10; 11; 95; and three at the limit.
    assert [round(height / whole, 2) for height in heights] == [0.33, 0.33, 0.33, 0.33, 1.0]
    titles = [one.text for one in picture.iter("title")]
    assert titles[0] == "1 to 5 steps: 1 solved, 0 not"
    assert titles[-1] == "96 to 100 steps: 0 solved, 3 not"


def test_solved_and_unsolved_of_the_same_length_stand_on_each_other():
    picture = svg(charts.lengths([10], [10], 10))
    (solved,), (unsolved,) = of_class(picture, "solved"), of_class(picture, "unsolved")
    top = float(unsolved.get("y")) + float(unsolved.get("height"))
    assert top == pytest.approx(float(solved.get("y")), abs=0.02)


def test_shares_fill_the_whole_bar_each_in_its_colour():
    picture = svg(charts.shares({"render": 3.0, "idle": 1.0, "<b>": 1.0}, "time"))
    widths = [float(one.get("width")) for one in picture.iter("rect")]
    assert widths == [600, 200, 200]
    assert [one.get("class") for one in picture.iter("rect")] == [
        "stage render",
        "stage idle",
        "stage unknown",
    ]
    assert picture.get("aria-label") == "time: render 60.0%, idle 20.0%, <b> 20.0%"


def test_batches_have_a_column_for_each_size_also_for_none_of_it():
    picture = svg(charts.batch_sizes({1: 4, 3: 8}))
    assert [one.text for one in picture.iter("text") if one.get("text-anchor") == "middle"] == [
        *("1", "2", "3")
    ]
    assert len(of_class(picture, "batch")) == 2


def test_absurd_sizes_of_batches_cost_nothing():
    picture = svg(charts.batch_sizes({1: 4, 10**9: 1}))
    assert len(of_class(picture, "batch")) == 2


def test_a_histogram_shows_the_bins_from_its_first_to_its_last():
    histogram = Histogram(bounds=(0.01, 0.1, 1.0), counts=(0, 2, 0, 1), total=3.0)
    picture = svg(charts.durations(histogram, "inference"))
    assert [one.text for one in picture.iter("title")] == [
        "10 ms to 0.10 s: 2",
        "0.10 s to 1.00 s: 0",
        "1.00 s and more: 1",
    ]


@pytest.mark.parametrize(
    "picture",
    [
        charts.lengths([], [], 220),
        charts.lengths([500], [], 0),
        charts.batch_sizes({}),
        charts.durations(Histogram(bounds=(1.0,), counts=(0, 0)), "nothing"),
        charts.shares({}, "nothing"),
        charts.steps_strip([], None, 220),
        charts.steps_strip([5], 5, 0),
    ],
)
def test_nothing_to_draw_is_a_picture_all_the_same(picture):
    assert svg(picture).get("aria-label")


def test_text_and_attributes_are_escaped():
    made = charts.tag("text", "<i>", class_='"><script>', data_it="a&b")
    assert str(made) == ('<text class="&#34;&gt;&lt;script&gt;" data-it="a&amp;b">&lt;i&gt;</text>')
