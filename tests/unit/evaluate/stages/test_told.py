# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from rpent_box.evaluate.stages.told import LogReader, Pace, Told, is_told


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "e", "done": 5, "total": 8}',
        '{"event": "e", "step": 5, "steps": 8}',
        '{"event": "e", "recorded": 5, "episodes": 8, "elapsed_s": 2.5}',
    ],
)
def test_a_line_says_how_far_a_stage_is(line: str) -> None:
    told = Told.read(line)
    assert told == Told(event="e", done=5.0, total=8.0)


def test_what_else_a_line_says_is_kept_where_it_is_plain() -> None:
    line = '{"event": "e", "loss": 0.5, "solved": true, "lesson": "a", "more": [1], "none": null}'
    told = Told.read(line)
    assert told is not None
    assert told.values == {"loss": 0.5, "solved": True, "lesson": "a"}
    assert (told.done, told.total) == (None, None)


def test_a_line_for_people_may_count_too() -> None:
    assert Told.read("3/40 scene 2 says 8") == Told(
        event="step", done=3.0, total=40.0, words="scene 2 says 8"
    )


@pytest.mark.parametrize(
    "line", ["", "getting ready", "{", '{"done": 3}', '{"event": 3}', "[1]", "1/2", "a 1/2 b"]
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert Told.read(line) is None
    assert not is_told(line)


def test_the_pace_counts_only_what_was_done_in_this_sitting() -> None:
    now = [100.0]
    pace = Pace(lambda: now[0])
    assert pace.left_s(Told(event="e", done=500, total=1000)) is None
    now[0] = 110.0
    assert pace.left_s(Told(event="e", done=600, total=1000)) == pytest.approx(40.0)
    assert pace.left_s(Told(event="e")) is None


def test_a_stage_that_knows_better_is_believed() -> None:
    assert Pace().left_s(Told(event="e", done=1, total=2, eta_s=77.0)) == 77.0


def test_a_log_is_read_from_its_end_and_only_in_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of an earlier sitting\n")
    with LogReader(log) as reader, log.open("ab") as file:
        for part, lines in ((b"one\ntw", ["one"]), (b"", []), (b"o\n\xff\n", ["two", "\ufffd"])):
            file.write(part)
            file.flush()
            assert list(reader.new_lines()) == lines


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    with LogReader(tmp_path / "log") as reader:
        assert list(reader.new_lines()) == []
        (tmp_path / "log").write_text("now\n")
        assert list(reader.new_lines()) == ["now"]
