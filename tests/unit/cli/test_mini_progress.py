# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

from rich.console import Console

from rpent_box.cli.mini_progress import StageBar, StageLines
from rpent_box.evaluate.stages.stage import Stage
from rpent_box.evaluate.stages.told import Told

STAGE = Stage(
    name="train", title="train", python="p", module="m", arguments=(), folder="/made/student"
)


def step(done: float) -> Told:
    return Told(event="step", done=done, total=2000.0, values={"step_s": 0.21, "gripper": 0.5})


def test_lines_say_how_far_it_is_and_how_long_it_will_take_but_not_too_often() -> None:
    said: list[str] = []
    now = [0.0]
    lines = StageLines(said.append, lambda: now[0])
    lines.on_stage(STAGE)
    for at in (0.0, 1.0, 4.0, 5.5):
        now[0] = at
        lines.on_told(step(50 * at), 720.0)
    lines.on_words("a warning")
    lines.on_told(Told(event="validation", values={"rows": 7}), None)
    lines.on_end(STAGE, 83.0)
    assert said == [
        "train: /made/student/making/train.log",
        "train: 0/2000, step s 0.21, gripper 0.5, about 12 min left",
        "train: 275/2000, step s 0.21, gripper 0.5, about 12 min left",
        "train: a warning",
        "train: validation, rows 7",
        "train: done in 83.0 s",
    ]


def test_a_terminal_keeps_one_line_and_what_is_done() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=140)
    with StageBar(console) as bar:
        bar.on_stage(STAGE)
        bar.on_told(step(50), 720.0)
        bar.on_words("[bold] is no markup")
        bar.view.refresh()
        (task,) = bar.view.tasks
        assert (task.completed, task.total) == (50, 2000)
        assert task.fields["left"] == "about 12 min left"
        bar.on_end(STAGE, 2.0)
    text = shown.getvalue()
    assert "50/2000" in text
    assert "[bold] is no markup" in text
    assert "train: done in 2.0 s" in text
