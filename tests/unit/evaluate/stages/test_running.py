# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rpent_box.errors import OutputError, ProgramDied, StartTimeout
from rpent_box.evaluate.stages.record import read_stage_file
from rpent_box.evaluate.stages.running import run_stage
from rpent_box.evaluate.stages.stage import MAKING, Stage
from rpent_box.evaluate.stages.told import Told
from rpent_box.launch.marked import is_alive

TELLS = """
import json, os, sys
print("getting ready")
print(json.dumps({"event": "step", "step": 1, "steps": 2, "pid": os.getpid()}), flush=True)
"""
ENDS = 'print(json.dumps({"event": "finished", "rows": 7}))\n'
FAILS = 'sys.stderr.write("no room\\nMake some.\\n"); raise SystemExit(1)\n'
HANGS = "import time; time.sleep(60)\n"


class Notes:
    """A watcher that remembers, and can stop as Ctrl-C does."""

    def __init__(self, *, stops: bool = False) -> None:
        self.told: list[Told] = []
        self.words: list[str] = []
        self.ended = False
        self.stops = stops

    def on_stage(self, stage: Stage) -> None:
        self.words.append(stage.title)

    def on_told(self, told: Told, left_s: float | None) -> None:
        self.told.append(told)
        if self.stops:
            raise KeyboardInterrupt

    def on_words(self, line: str) -> None:
        self.words.append(line)

    def on_end(self, stage: Stage, wall_s: float) -> None:
        self.ended = True


def stage(folder: Path, program: str, **changes: object) -> Stage:
    """Return a stage whose program lies where a stage is run, so that Python finds it there."""
    where = folder / MAKING
    where.mkdir(exist_ok=True)
    (where / "toy_stage.py").write_text(TELLS + program)
    fields = {
        "name": "toy",
        "title": "make a toy",
        "python": sys.executable,
        "module": "toy_stage",
        "arguments": ("--size=3",),
        "folder": str(folder),
    }
    return Stage(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_stage_is_followed_to_its_end_and_written_down(tmp_path: Path) -> None:
    made, notes = stage(tmp_path, ENDS), Notes()
    run_stage(made, notes, timeout_s=60, command=("rpent-box", "mini"))
    assert notes.words == ["make a toy", "getting ready"]
    assert [(told.event, told.done, told.total) for told in notes.told] == [
        ("step", 1.0, 2.0),
        ("finished", None, None),
    ]
    assert notes.ended
    record = read_stage_file(made.record)
    (sitting,) = record.sittings
    assert sitting.ended == "complete"
    assert sitting.words == (sys.executable, "-m", "toy_stage", "--size=3")
    assert sitting.command == ("rpent-box", "mini")
    assert sitting.wall_s > 0
    assert sitting.cpu_s > 0
    assert record.told["finished"].values == {"rows": 7}


def test_sittings_add_up_and_each_tells_only_what_is_new(tmp_path: Path) -> None:
    with pytest.raises(ProgramDied):
        run_stage(stage(tmp_path, FAILS), Notes(), timeout_s=60)
    again, notes = stage(tmp_path, ENDS), Notes()
    run_stage(again, notes, timeout_s=60)
    assert len(notes.told) == 2
    record = read_stage_file(again.record)
    first, second = record.sittings
    assert first.ended.startswith("ProgramDied: ")
    assert record.wall_s == first.wall_s + second.wall_s


def test_a_stage_is_complete_for_what_it_makes_and_however_it_was_made(tmp_path: Path) -> None:
    made = stage(tmp_path, ENDS, how=("--workers=2",))
    assert not read_stage_file(made.record).is_complete(made)
    run_stage(made, Notes(), timeout_s=60)
    record = read_stage_file(made.record)
    assert record.is_complete(stage(tmp_path, ENDS, how=("--workers=9",), python="another"))
    assert not record.is_complete(stage(tmp_path, ENDS, arguments=("--size=4",)))


def test_a_stage_that_fails_is_quoted_in_its_own_words(tmp_path: Path) -> None:
    made = stage(tmp_path, FAILS)
    with pytest.raises(ProgramDied) as caught:
        run_stage(made, Notes(), timeout_s=60)
    assert caught.value.message == (
        "`make a toy` has ended: exit code 1. It last said:\n"
        "  getting ready\n  no room\n  Make some."
    )
    assert str(made.log) in caught.value.hint


def test_a_stage_is_not_quoted_with_what_it_said_another_time(tmp_path: Path) -> None:
    with pytest.raises(ProgramDied):
        run_stage(stage(tmp_path, FAILS), Notes(), timeout_s=60)
    silent = 'sys.stderr.write("a line without an end"); raise SystemExit(3)\n'
    with pytest.raises(ProgramDied) as caught:
        run_stage(stage(tmp_path, silent), Notes(), timeout_s=60)
    assert caught.value.message == (
        "`make a toy` has ended: exit code 3. It last said:\n"
        "  getting ready\n  a line without an end"
    )
    assert "no room" not in caught.value.detail


def test_a_stage_that_is_late_is_ended_and_may_be_gone_on_with(tmp_path: Path) -> None:
    notes = Notes()
    with pytest.raises(StartTimeout, match="has not come to its end in time") as caught:
        run_stage(stage(tmp_path, HANGS), notes, timeout_s=1.5)
    assert "The same command goes on" in caught.value.hint
    assert_gone(notes)


def test_nothing_is_left_of_a_stage_that_is_stopped(tmp_path: Path) -> None:
    made, notes = stage(tmp_path, HANGS), Notes(stops=True)
    with pytest.raises(KeyboardInterrupt):
        run_stage(made, notes, timeout_s=60)
    assert_gone(notes)
    assert read_stage_file(made.record).sittings[0].ended == "stopped by SIGINT"


def test_two_commands_do_not_work_in_one_folder(tmp_path: Path) -> None:
    made = stage(tmp_path, ENDS)

    class Second(Notes):
        def on_stage(self, stage: Stage) -> None:
            with pytest.raises(OutputError, match="another command is at work"):
                run_stage(made, Notes(), timeout_s=60)
            super().on_stage(stage)

    second = Second()
    run_stage(made, second, timeout_s=60)
    assert second.ended


def assert_gone(notes: Notes) -> None:
    pid = notes.told[0].values["pid"]
    assert isinstance(pid, int)
    deadline = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(pid), os.listdir(f"/proc/{pid}/task")
