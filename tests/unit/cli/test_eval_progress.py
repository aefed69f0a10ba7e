# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rpent_box.cli.eval_progress import Announcements, Lines, Showing, live_table, watching
from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.watcher import EvalWatcher, EvalWatchers
from rpent_box.live.state import LiveState

ACTING = Progress(phase="acting", steps=12, max_steps=40)
HUNG = Restart(
    why="hung",
    reason="no sign of progress for 600 s",
    phase="acting",
    step=12,
    silent_s=600.0,
    at="2026-01-01T00:00:00+00:00",
    log="simulator-1.log",
)
LOST = (
    "suite_0 0, init state 1, seed 7, simulator 1: the simulator hung at: acting, step 12 "
    "(no sign of progress for 600 s); another one begins the episode again"
)
SHOW_NOTHING_ELSE = Showing(quiet=False, dashboard_port=None, metrics=None)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def tell(watcher: EvalWatcher, story: Any, clock: Clock) -> None:
    watcher.on_launcher("process", "no engine answers [at all]")
    watcher.on_phase("worker", "loading")
    for simulator in ("simulator 0", "simulator 1"):
        watcher.on_phase(simulator, "importing the simulator")
    watcher.on_phase("worker", "ready")
    watcher.on_begin(story.begun(story.row(story.jobs[2])))
    watcher.on_envs("", 2, "as many as cores")
    for simulator in ("simulator 0", "simulator 1"):
        watcher.on_phase(simulator, "ready")
    for number in (0, 1):
        for _ in range(50):
            watcher.on_progress(str(number), story.jobs[number], ACTING)
    clock.now += 10.0
    watcher.on_episode(story.row(story.jobs[0], success=False))
    watcher.on_restart("1", story.jobs[1], HUNG)
    watcher.on_worker_lost("", "killed by SIGKILL\nits last lines")
    watcher.on_failure(story.failed(story.jobs[1], "the toy broke\nTraceback"))
    clock.now += 21.0
    watcher.on_worker("", Figures(ready_s=31.0, busy_s=15.5))
    watcher.on_worker("", Figures(ready_s=33.0, busy_s=16.0))


def test_without_a_terminal_a_night_is_a_line_per_episode_and_a_summary_now_and_then(
    story: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    state = LiveState(clock=clock)
    tell(EvalWatchers([state, Lines(state, clock)]), story(), clock)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line.split("] ", 1)[1] for line in captured.err.splitlines()]
    assert lines[:-1] == [
        "launcher: process (no engine answers [at all])",
        "worker: loading",
        "worker: ready",
        "6 episodes of 2 tasks, 1 of them played already: /runs/run-1",
        "2 simulators (as many as cores)",
        "simulator 0: ready",
        "simulator 1: ready",
        "2 of 6: suite_0 0, init state 0, seed 7: not solved in 12 steps, 2.0 s (simulator 0)",
        LOST,
        "the worker is lost (killed by SIGKILL); another one is started",
        "suite_0 0, init state 1, seed 7: error: the toy broke",
    ]
    assert lines[-1].startswith("2 of 6 played, 50.0% solved (9–91), 1.9 episodes/min, worker busy")
    assert "1 simulator replaced, 1 worker replaced, 1 error, about" in lines[-1]


def test_a_long_start_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    state = LiveState(clock=clock)
    watcher = EvalWatchers([state, Lines(state, clock)])
    watcher.on_phase("worker", "reading weights")
    for number in range(9):
        watcher.on_phase(f"node-1 simulator {number}", "importing the simulator")
    clock.now += 31.0
    watcher.on_phase("node-1 simulator 9", "importing the simulator")
    lines = [line.split("] ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "worker: reading weights",
        "starting: worker (reading weights), node-1 simulator 0 (importing the simulator), "
        "node-1 simulator 1 (importing the simulator) and 8 more",
    ]


def test_on_a_terminal_what_is_out_of_the_ordinary_stays_above_the_table(story: Any) -> None:
    clock, screen = Clock(), io.StringIO()
    state = LiveState(clock=clock)
    console = Console(file=screen, force_terminal=True, width=100, height=30)
    with live_table(state, console) as drawing:
        watcher = EvalWatchers([state, Announcements(console.print)])
        tell(watcher, story(), clock)
        drawing.refresh()
        view = Console(file=io.StringIO(), width=100, height=30)
        view.print(drawing.renderable)
    shown = screen.getvalue()
    assert "another one begins the episode again" in shown
    assert "simulator 0: ready" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    table = view.file.getvalue()  # type: ignore[attr-defined]
    assert "all" in table
    assert "2/6" in table
    assert all(len(line) <= 100 for line in table.splitlines())


def test_an_error_gives_the_cursor_back_and_takes_the_table_away(story: Any) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, height=24)
    state = LiveState(clock=Clock())

    def fail() -> None:
        with live_table(state, console):
            state.on_begin(story().begun())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    shown = screen.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_quiet_says_nothing(story: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with watching(Showing(quiet=True, dashboard_port=None, metrics=None)) as view:
        tell(view.watcher, story(), Clock())
    assert capsys.readouterr() == ("", "")


def test_a_dashboard_and_metrics_are_served_and_their_addresses_said_once(
    story: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("uvicorn", reason="the extra dashboard is not installed")
    showing = Showing(quiet=True, dashboard_port=0, metrics=("127.0.0.1", 0))
    with watching(showing) as view:
        tell(view.watcher, story(), Clock())
    page, metrics = capsys.readouterr().err.splitlines()
    assert page.startswith("dashboard: http://127.0.0.1:")
    assert "token=" in page
    assert metrics.startswith("metrics: http://127.0.0.1:")


def test_what_is_said_of_a_stop_stays_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with watching(SHOW_NOTHING_ELSE) as view:
        view.say("kept: everything")
    assert capsys.readouterr() == ("", "kept: everything\n")
