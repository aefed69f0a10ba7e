# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.evaluate.scale.plan import JobKey
from rpent_box.report import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0.0004, "0.4 ms"),
        (0.0123, "12 ms"),
        (0.25, "0.25 s"),
        (12.34, "12.3 s"),
        (185, "3 min 05 s"),
        (7620, "2 h 07 min"),
    ],
)
def test_a_duration_is_written_as_one_says_it(value, text):
    assert words.seconds(value) == text


def test_shares_and_points_have_one_decimal_and_a_sign_of_their_own():
    assert [words.percent(one) for one in (None, 0, 0.768, 1.0, 0.9996)] == [
        *("—", "0.0%", "76.8%", "100%", "100%")
    ]
    assert words.interval((0.6912, 0.8307)) == "69.1–83.1%"
    assert [words.points(one) for one in (0.042, -0.01, 0.0, -0.0001)] == [
        *("+4.2", "−1.0", "0.0", "0.0")
    ]
    assert words.points(0.177, signed=False) == "17.7"


def test_numbers_are_apart_by_thousands():
    assert [words.number(one) for one in (1234, 12.5, 12.0, None, -3)] == [
        *("1\u202f234", "12.5", "12", "—", "−3")
    ]
    assert [words.signed(one) for one in (3, -1.5, 0)] == ["+3", "−1.5", "0"]
    assert words.count(1, "episode") == "1 episode"
    assert words.count(2000, "box", "boxes") == "2\u202f000 boxes"


def test_a_probability_is_never_printed_as_zero():
    found = [words.probability(one) for one in (0.0311, 0.0001, 1.0)]
    assert found == ["0.031", "< 0.001", "1.000"]


def test_moments_are_utc_and_what_is_none_is_left_as_it_is():
    assert words.clock("2026-11-30T09:50:12+00:00") == "2026-11-30 09:50:12 UTC"
    assert words.clock("2026-11-30T09:50:12+02:00") == "2026-11-30T09:50:12+02:00"
    assert words.clock(None) == "—"


def test_episodes_are_named_by_task_in_ranges():
    keys = [JobKey("s", 0, state, 7) for state in (0, 1, 2, 5)] + [JobKey("s", 1, 4, 8)]
    assert words.grouped(keys) == [
        ("s 0", "init states 0–2, 5, seed 7"),
        ("s 1", "init state 4, seed 8"),
    ]


def test_a_task_is_named_once_whatever_its_seeds():
    keys = [JobKey("s", 0, state, seed) for state in range(3) for seed in (7, 8)]
    assert words.grouped(keys) == [("s 0", "init states 0–2, seeds 7–8")]
    assert words.grouped(keys[:-1]) == [("s 0", "init states 0–2, seed 7; init states 0–1, seed 8")]


def test_a_path_breaks_behind_its_dots_and_is_escaped():
    assert words.breakable("a.b_c<i>") == "a.<wbr>b_<wbr>c&lt;i&gt;"
