# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.cli.tables import percent, render_table, seconds


def test_numbers_are_aligned_to_the_right_and_words_to_the_left() -> None:
    text = render_table(("state", "steps", "seconds"), [("yes", "9", "1.5"), ("no", "110", "10.5")])
    assert text == (
        "state  steps  seconds\n"
        "yes        9      1.5\n"
        "no       110     10.5\n"
    )  # fmt: skip


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
