# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rpent_box.backends.mini_wam.training import Stage, plan, run
from rpent_box.errors import ProgramDied

OUT = Path("/made")


def test_what_a_stage_reads_was_written_by_an_earlier_one() -> None:
    written: set[str] = set()
    for stage in plan(OUT, simulator_python="simulator", workers=3):
        words = stage.arguments
        out = words[words.index("--out") + 1]
        read = {word for word in words if word.startswith(str(OUT))} - {out}
        assert read <= written, stage.title
        written.add(out)
    assert str(OUT / "final" / "checkpoint") in written


def test_only_demonstrations_need_the_simulators_python() -> None:
    stages = plan(OUT, simulator_python="simulator", workers=3)
    assert {stage.module for stage in stages if stage.python == "simulator"} == {
        "rpent_box_libero.teaching.demonstrate"
    }
    assert {stage.python for stage in stages} == {"simulator", sys.executable}


def test_the_readers_guide_shows_the_same_commands() -> None:
    guide = Path(__file__).parents[4] / "rpent_box" / "backends" / "mini_wam" / "TRAINING.md"
    text = guide.read_text()
    for stage in plan(Path(), simulator_python="simulator", workers=2):
        words = " ".join(stage.arguments).removesuffix(" --workers 2")
        assert f"{stage.module.rpartition('.')[2]} {words}\n" in text


def test_a_stage_that_fails_ends_the_recipe(capfd: pytest.CaptureFixture[str]) -> None:
    fails = Stage(title="fails", python=sys.executable, module="no_such_module", arguments=())
    never = Stage(title="never", python=sys.executable, module="this", arguments=())
    with pytest.raises(ProgramDied, match="`fails` ended with status 1"):
        run([fails, never])
    shown = capfd.readouterr()
    assert "1/2 fails" in shown.out
    assert "never" not in shown.out


def test_stages_that_end_well_are_timed(capfd: pytest.CaptureFixture[str]) -> None:
    run([Stage(title="poem", python=sys.executable, module="this", arguments=())])
    shown = capfd.readouterr().out
    assert "Beautiful is better than ugly." in shown
    assert "1/1 done in" in shown
