# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from rpent_box.cli.eval_table import draw, telling_first
from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.live.state import LiveState

SIZES = [(80, 24), (80, 8), (40, 5), (200, 60), (20, 3), (80, 1)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def played(story: Any, *, done: int, simulators: int = 2, clock: Clock | None = None) -> LiveState:
    clock = clock or Clock()
    state = LiveState(clock=clock)
    state.on_launcher("process", "asked for")
    state.on_phase("worker", "ready")
    state.on_begin(story.begun())
    state.on_envs("", simulators, "asked for")
    for number, job in enumerate(story.jobs[: done + simulators]):
        clock.now += 3.0
        simulator = str(number % simulators)
        state.on_progress(simulator, job, Progress(phase="acting", steps=12, max_steps=40))
        if number < done:
            state.on_episode(story.row(job, simulator=simulator, success=number % 3 != 0))
        state.on_worker("", Figures(ready_s=clock.now, busy_s=clock.now / 4))
    return state


def lines(state: LiveState, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in draw(state.picture(), width=width, height=height)]


def test_each_task_has_a_line_with_its_score_and_each_simulator_one_with_its_steps(
    story: Any,
) -> None:
    shown = lines(played(story(), done=4))
    assert shown[0].startswith("toy · toy, ")
    assert shown[1].split() == ["task", "done", "success", "95%", "steps", "s"]
    assert shown[2].startswith("0: reach")
    assert shown[2].split()[-5:] == ["3/3", "66.7%", "21–94", "12", "2.0"]
    assert shown[3].split()[-5:] == ["1/3", "0.0%", "0–79", "12", "2.0"]
    assert shown[4].split() == ["all", "4/6", "50.0%", "15–85", "12", "2.0"]
    assert shown[5].startswith("0 acting ")
    assert shown[5].endswith(" 12/40     suite_0 1, init state 1")
    assert shown[-1].endswith("episodes/min · worker busy 25%")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(("suites", "tasks"), [(1, 1), (1, 130), (28, 10)])
def test_it_fits_any_terminal(story: Any, width: int, height: int, suites: int, tasks: int) -> None:
    whole = story(suites=suites, tasks=tasks)
    for simulators in (1, 3, 32):
        state = played(whole, done=2, simulators=simulators)
        shown = lines(state, width, height)
        assert 1 <= len(shown) <= height
        assert all(cell_len(line) <= width for line in shown)


def test_what_is_played_is_shown_among_many_tasks_and_the_rest_is_counted(story: Any) -> None:
    state = played(story(tasks=130), done=200)
    shown = lines(state, 80, 24)
    assert any(line.startswith("66: ") for line in shown)
    assert any(line.startswith("67: ") for line in shown)
    assert "and 113 more tasks: 51 done, 62 to come" in shown
    numbers = [int(line.split(":")[0]) for line in shown if "reach" in line]
    assert numbers == sorted(numbers)


def test_suites_have_lines_of_their_own_where_there_are_several(story: Any) -> None:
    shown = lines(played(story(suites=2), done=7))
    assert shown[2].split() == ["suite_0", "6/6", "66.7%", "30–90", "12", "2.0"]
    assert shown[3].startswith("  0: reach")
    assert shown[5].split()[:2] == ["suite_1", "1/6"]


def test_tasks_with_errors_come_before_those_that_are_done(story: Any) -> None:
    whole = story(tasks=4)
    state = played(whole, done=9)
    state.on_failure(whole.failed(whole.jobs[0]))
    order = [task.task for task in telling_first(state.picture())]
    assert order == [3, 0, 2, 1]
    assert lines(state)[-1].endswith("1 error")


def test_many_simulators_share_a_line(story: Any) -> None:
    state = played(story(tasks=30), done=4, simulators=16)
    job = story(tasks=30).jobs[-1]
    state.on_progress("3", job, Progress(phase="predicting", steps=12, max_steps=40))
    shown = lines(state, 80, 50)
    assert "16 simulators: 15 acting, 1 predicting" in shown


def test_a_simulator_that_was_lost_and_one_that_is_silent_are_told(story: Any) -> None:
    clock = Clock()
    state = played(story(), done=2, clock=clock)
    hung = Restart(
        why="hung", reason="no sign of progress", phase="acting", step=3, silent_s=9, at="", log=""
    )
    state.on_restart("0", story().jobs[2], hung)
    clock.now += 30
    shown = lines(state)
    assert any(line.startswith("0 replaced   hung while acting") for line in shown)
    assert any(line.startswith("1 acting ") and line.endswith(", for 30.0 s") for line in shown)
    assert "1 simulator replaced" in shown[-1]


def test_only_programs_are_waited_for_once_something_is_played(story: Any) -> None:
    state = played(story(), done=2)
    for name in ("node-0 machine", "images", "node-0 worker", "node-0 simulator 3"):
        state.on_phase(name, "somewhere")
    shown = [line.split(":")[0] for line in lines(state) if ": somewhere" in line]
    assert shown == ["node-0 worker", "node-0 simulator 3"]


def test_before_anything_is_played_the_parts_that_start_are_shown() -> None:
    state = LiveState(clock=Clock())
    state.on_phase("worker", "reading weights [of 4]")
    for number in range(12):
        state.on_phase(f"simulator {number}", "importing the simulator")
    state.on_phase("simulator 3", "ready")
    shown = lines(state)
    assert shown[0].startswith("starting, ")
    assert shown[1] == "worker: reading weights [of 4], 0.00 s"
    assert "and 8 more are starting" in shown
