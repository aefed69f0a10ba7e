# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.cli.tables import about, percent, render_table, seconds


def test_numbers_are_aligned_to_the_right_and_words_to_the_left() -> None:
    text = render_table(("state", "steps", "seconds"), [("yes", "9", "1.5"), ("no", "110", "10.5")])
    assert text == (
        "state  steps  seconds\n"
        "yes        9      1.5\n"
        "no       110     10.5\n"
    )  # fmt: skip


def test_a_name_cannot_move_the_cursor() -> None:
    text = render_table(("task",), [("a\nb\x1b[31m\u202e \u00e9",)])
    assert text == "task\na\\nb\\x1b[31m\\u202e \u00e9\n"


def test_no_rows_make_no_table() -> None:
    assert render_table(("a",), []) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.844, "0.84 s"), (12.34, "12.3 s"), (185.0, "3 min 05 s"), (7500.0, "2 h 05 min")],
)
def test_durations_read_as_a_person_says_them(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_share_of_nothing_is_empty() -> None:
    assert percent(1.0, 0.0) == ""
    assert percent(1.0, 4.0) == "25%"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.0, "a few seconds"),
        (29.0, "half a minute"),
        (58.0, "about 1 min"),
        (3500.0, "about 58 min"),
        (3599.0, "about 1 h 00 min"),
        (4700.0, "about 1 h 20 min"),
        (3 * 86400.0, "about 3 days"),
    ],
)
def test_a_guess_is_not_told_to_the_second(value: float, text: str) -> None:
    assert about(value) == text
