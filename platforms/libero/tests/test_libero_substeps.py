# SPDX-License-Identifier: Apache-2.0
"""The physics steps within a control step against robosuite's own, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rpent_box.errors import SimulatorError
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite

pytestmark = pytest.mark.simulator

SEED = 7


@pytest.fixture(scope="module")
def environments() -> Iterator[dict[str, Any]]:
    """One environment per suite, of a task with free things; they are reset before each use."""
    with prepared_process():
        from rpent_box_libero.environment import LiberoEnvironment
        from rpent_box_libero.tasks import find_task

        opened = {
            suite: LiberoEnvironment(find_task(suite, find_suite(suite).tasks[task]), image_size=32)
            for suite, task in (("libero_object", 3), ("libero_goal", 3))
        }
        yield opened
        for environment in opened.values():
            environment.close()


@pytest.mark.parametrize("suite", ["libero_object", "libero_goal"])
def test_states_controllers_and_motors_equal_robosuites_own(
    environments: dict[str, Any], suite: str
) -> None:
    # Some of libero_object's quaternions go to and fro in their last bit, and most of libero_goal's
    # stay: each way through is taken here, as the counts say.
    environment = environments[suite]
    with stock_substeps(environment):
        wanted = play(environment, steps=15)
    ways = count_ways(environment)
    got = play(environment, steps=15)
    assert got == wanted
    skipped, repeated = ways()
    assert skipped > 0
    assert repeated > 0 if suite == "libero_object" else skipped > repeated


def test_physics_that_blows_up_ends_as_it_does_in_robosuite(environments: dict[str, Any]) -> None:
    def spoil(environment: Any) -> None:
        # Between the controller and the integration, where MuJoCo looks for it.
        environment.problem.sim.data.qvel[-1] = np.inf

    environment = environments["libero_goal"]
    with stock_substeps(environment):
        wanted = play(environment, steps=6, spoil=spoil)
        assert environment.restarts == 1
    assert play(environment, steps=6, spoil=spoil) == wanted
    assert environment.restarts == 1
    assert play(environment, steps=6) != wanted


def test_an_arm_with_other_settings_is_refused(environments: dict[str, Any]) -> None:
    from rpent_box_libero.substeps import ArmSubsteps

    problem = environments["libero_goal"].problem
    robot = problem.robots[0]
    robot.controller.impedance_mode = "variable"
    try:
        with pytest.raises(SimulatorError, match="variable"):
            ArmSubsteps(robot, problem.sim)
    finally:
        robot.controller.impedance_mode = "fixed"


def play(
    environment: Any, *, steps: int, spoil: Callable[[Any], None] | None = None
) -> list[tuple[bytes, ...]]:
    """Return what each step left in the simulation, the controller and the motors."""
    environment.reset(seed=SEED, settle_steps=2, render=False)
    rows = np.random.default_rng(0).uniform(-1, 1, (steps, 7))
    rows[:, 2] -= 0.5
    left = []
    for number, row in enumerate(rows):
        pre_action = environment.problem._pre_action
        if spoil is not None and number == steps // 2:
            environment.problem._pre_action = spoiling(environment, pre_action, spoil)
        environment.step(row, render=False)
        if spoil is not None and number == steps // 2:
            del environment.problem._pre_action
        robot, data = environment.problem.robots[0], environment.problem.sim.data
        arm = robot.controller
        arrays = (
            environment.state(),
            data.qacc_warmstart,
            data.ctrl,
            data.sensordata,
            robot.torques,
            robot.gripper.current_action,
            arm.ee_pos,
            arm.ee_ori_mat,
            arm.ee_pos_vel,
            arm.ee_ori_vel,
            arm.joint_pos,
            arm.mass_matrix,
            arm.J_full,
            arm.torques,
        )
        left.append(tuple(np.ascontiguousarray(array).tobytes() for array in arrays))
    return left


def spoiling(
    environment: Any, pre_action: Callable[..., None], spoil: Callable[[Any], None]
) -> Callable[..., None]:
    calls = 0

    def spoiled(action: Any, policy_step: bool = False) -> None:
        nonlocal calls
        pre_action(action, policy_step)
        calls += 1
        if calls == 10:
            spoil(environment)

    return spoiled


@contextmanager
def stock_substeps(environment: Any) -> Iterator[None]:
    """Let robosuite do all of them."""
    from rpent_box_libero.problem import CompiledOnce

    stock = super(CompiledOnce, environment.problem)._pre_action
    assert "rpent_box" not in stock.__module__
    original = CompiledOnce._pre_action

    def pre_action(self: Any, action: Any, policy_step: bool = False) -> None:
        super(CompiledOnce, self)._pre_action(action, policy_step)

    CompiledOnce._pre_action = pre_action
    try:
        yield
    finally:
        CompiledOnce._pre_action = original


def count_ways(environment: Any) -> Callable[[], tuple[int, int]]:
    """Return what tells how often measuring was skipped, and how often repeated, from now on."""
    from rpent_box_libero.substeps import ArmSubsteps

    counts = {True: 0, False: 0}
    stay = ArmSubsteps._quaternions_stay

    def counted(self: ArmSubsteps) -> bool:
        answer = stay(self)
        counts[answer] += 1
        return answer

    ArmSubsteps._quaternions_stay = counted

    def told() -> tuple[int, int]:
        ArmSubsteps._quaternions_stay = stay
        return counts[True], counts[False]

    return told
