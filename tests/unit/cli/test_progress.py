# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from rpent_box.cli.progress import LineWatcher, LiveWatcher, speaker, watch
from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.evaluate.config import RunWatcher, SilentWatcher
from rpent_box.sim.results import EpisodeRow

Rows = Callable[..., EpisodeRow]

HUNG = Restart(
    why="hung",
    reason="no sign of progress for 600 s",
    phase="acting",
    step=12,
    silent_s=600.0,
    at="2026-01-01T00:00:00+00:00",
    log="simulator.log",
)
BEGUN_AGAIN = (
    "the simulator hung at: acting, step 12 (no sign of progress for 600 s); "
    "another one begins the episode again"
)


def tell_a_whole_run(watcher: RunWatcher, row: Rows) -> None:
    watcher.on_launcher("process", "no engine answers [at all]")
    for component in ("worker", "simulator"):
        watcher.on_phase(component, "loading")
        watcher.on_phase(component, "ready")
    for episode in range(2):
        watcher.on_progress(episode, Progress(phase="resetting", max_steps=40))
        for steps in range(0, 40, 4):
            for turn in ("predicting", "acting"):
                watcher.on_progress(episode, Progress(phase=turn, steps=steps, max_steps=40))
        watcher.on_episode(row(episode=episode, success=episode == 0))


def test_without_a_terminal_each_event_is_a_line(
    row: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    with watch(episodes=2, quiet=False) as watcher:
        assert isinstance(watcher, LineWatcher)
        tell_a_whole_run(watcher, row)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line.split("] ", 1)[1] for line in captured.err.splitlines()]
    assert lines == [
        "launcher: process (no engine answers [at all])",
        "worker: loading",
        "worker: ready",
        "simulator: loading",
        "simulator: ready",
        "episode 1/2: resetting",
        "episode 1/2: acting 0/40",
        "episode 1/2: solved in 12 steps, 2.0 s",
        "episode 2/2: resetting",
        "episode 2/2: acting 0/40",
        "episode 2/2: not solved in 12 steps, 2.0 s",
    ]


def test_an_episode_that_is_begun_again_is_told_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watcher = LineWatcher(episodes=2)
    watcher.on_progress(1, Progress(phase="acting", steps=12, max_steps=40))
    watcher.on_restart(1, HUNG)
    watcher.on_progress(1, Progress(phase="acting", steps=0, max_steps=40))
    lines = [line.split("] ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "episode 2/2: acting 12/40",
        f"episode 2/2: {BEGUN_AGAIN}",
        "episode 2/2: acting 0/40",
    ]


def test_on_a_terminal_it_stays_above_the_live_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    with LiveWatcher(console, episodes=2) as watcher:
        watcher.on_progress(1, Progress(phase="acting", steps=12, max_steps=40))
        watcher.on_restart(1, HUNG)
        view = Console(file=io.StringIO(), width=160)
        view.print(watcher.view)
    assert f"episode 2: {BEGUN_AGAIN}" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "starting another simulator" in view.file.getvalue()  # type: ignore[attr-defined]


def test_quiet_says_nothing(row: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    with watch(episodes=2, quiet=True) as watcher:
        assert isinstance(watcher, SilentWatcher)
        tell_a_whole_run(watcher, row)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_steps_and_the_count_of_solved_episodes_are_shown(row: Rows) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with LiveWatcher(console, episodes=2) as watcher:
        tell_a_whole_run(watcher, row)
        view = Console(file=io.StringIO(), width=120)
        view.print(watcher.view)
    drawn = view.file.getvalue()  # type: ignore[attr-defined]
    assert "launcher: process (no engine answers [at all])" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "worker" in drawn
    assert "1 solved of 2 played, 2 in all" in drawn
    assert "last: not solved in 12 steps, 2.0 s" in drawn


def test_an_error_gives_the_cursor_back() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    watcher = LiveWatcher(console, episodes=1)
    watcher.__enter__()
    watcher.on_phase("worker", "loading [weights]")
    watcher.__exit__(RuntimeError, RuntimeError(), None)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_progress_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        speaker(quiet=False)("it goes on")
        monkeypatch.undo()
        # What it still holds cannot be written when it is closed either.
        with pytest.raises(OSError, match="No space left"):
            full.close()
