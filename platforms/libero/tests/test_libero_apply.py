# SPDX-License-Identifier: Apache-2.0
"""How a chunk is executed, asked of a platform around a pretended simulator."""

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from rpent_box.contracts.observation import Observation
from rpent_box.errors import BadActions, SimulatorError
from rpent_box_libero.gate import CameraGate
from rpent_box_libero.platform import BLEW_UP, SOLVED_BEFORE, LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions


class PretendedEnvironment:
    """Notes which rows were executed and which of them were drawn; solved at step `solved_at`."""

    def __init__(self, solved_at: int | None = None) -> None:
        self.gate = CameraGate()
        self.solved_at = solved_at
        self.restarts = 0
        self.rows: list[float] = []
        self.drawn: list[int] = []
        self.closed = 0

    def step(self, action: Any, *, render: bool) -> bool:
        self.rows.append(float(action[0]))
        if render:
            self.drawn.append(len(self.rows))
            self.gate.render_s += 0.5
        return len(self.rows) == self.solved_at

    def state(self) -> Any:
        return np.array([float(len(self.rows))])

    def observe(self) -> Observation:
        return Observation(images={}, proprio={}, instruction="")

    def close(self) -> None:
        self.closed += 1


def platform_around(environment: PretendedEnvironment) -> LiberoPlatform:
    platform = LiberoPlatform(LiberoOptions(), renderer="none", resources=ExitStack())
    platform._environment = environment  # type: ignore[assignment]
    platform._recording.start(environment.state())
    return platform


def chunk(steps: int) -> Any:
    actions = np.zeros((steps, 7), dtype=np.float32)
    actions[:, 0] = np.arange(steps)
    return actions


def test_all_rows_are_executed_in_order_and_only_the_last_is_drawn() -> None:
    environment = PretendedEnvironment()
    applied = platform_around(environment).apply(chunk(10))
    assert environment.rows == list(range(10))
    assert environment.drawn == [10]
    assert (applied.steps, applied.success) == (10, False)
    assert applied.observation is not None


def test_execution_stops_at_success_and_shows_nothing() -> None:
    environment = PretendedEnvironment(solved_at=4)
    applied = platform_around(environment).apply(chunk(10))
    assert (applied.steps, applied.success) == (4, True)
    assert environment.rows == [0, 1, 2, 3]
    assert environment.drawn == []
    assert applied.observation is None


def test_success_on_the_last_row_shows_nothing_either() -> None:
    applied = platform_around(PretendedEnvironment(solved_at=10)).apply(chunk(10))
    assert (applied.steps, applied.success, applied.observation) == (10, True, None)


def test_a_task_that_was_solved_before_anything_moved_says_so_once() -> None:
    platform = platform_around(PretendedEnvironment())
    platform._solved_before = True
    assert platform.apply(chunk(3)).remarks == {SOLVED_BEFORE: 1}
    assert platform.apply(chunk(3)).remarks == {}


def test_a_scene_that_was_lost_is_remarked_on_when_it_happens() -> None:
    environment = PretendedEnvironment()
    platform = platform_around(environment)
    environment.restarts = 1  # while it settled
    assert platform.apply(chunk(3)).remarks == {BLEW_UP: 1}
    assert platform.apply(chunk(3)).remarks == {}
    environment.restarts = 3
    assert platform.apply(chunk(3)).remarks == {BLEW_UP: 2}


def test_drawing_and_simulating_are_measured_apart() -> None:
    applied = platform_around(PretendedEnvironment()).apply(chunk(3))
    assert applied.render_s == 0.5
    assert applied.simulate_s < 0.5


def test_every_control_step_is_recorded_after_the_settled_scene() -> None:
    platform = platform_around(PretendedEnvironment(solved_at=5))
    platform.apply(chunk(3))
    platform.apply(chunk(3))
    assert platform.recorded_states()[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_bad_row_is_refused_before_the_first_is_executed() -> None:
    environment = PretendedEnvironment()
    actions = chunk(10)
    actions[9, 0] = np.nan
    with pytest.raises(BadActions, match="nothing was executed"):
        platform_around(environment).apply(actions)
    assert environment.rows == []


def test_acting_before_the_first_reset_is_refused() -> None:
    platform = LiberoPlatform(LiberoOptions(), renderer="none", resources=ExitStack())
    with pytest.raises(SimulatorError, match="before its first reset"):
        platform.apply(chunk(1))


def test_closing_twice_frees_once() -> None:
    environment = PretendedEnvironment()
    platform = platform_around(environment)
    platform.close()
    platform.close()
    assert environment.closed == 1
