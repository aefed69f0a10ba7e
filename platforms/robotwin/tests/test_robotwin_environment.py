# SPDX-License-Identifier: Apache-2.0
"""Scenes: what fixes them, and that they are RoboTwin's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from robotwin_scenes import FIRST, cluttered_assets, hands

from rpent_box.errors import SimulatorError
from rpent_box_robotwin.process import assets_in, prepared_process, quiet
from rpent_box_robotwin.randomness import Randomness

if TYPE_CHECKING:
    from rpent_box_robotwin.environment import RobotwinEnvironment
    from rpent_box_robotwin.renderer import Renderer

pytestmark = pytest.mark.simulator

Build = Callable[..., "RobotwinEnvironment"]
A, B = 100000, 100001


@pytest.fixture(scope="module")
def renderer(assets: Path) -> Iterator[Renderer]:
    with prepared_process():
        import sapien

        from rpent_box_robotwin.renderer import Renderer, is_software

        system = sapien.render.RenderSystem()
        made = Renderer(system, rays=not is_software(system.device.name))
        yield made
        made.close()


@pytest.fixture
def build(assets: Path, renderer: Renderer) -> Iterator[Build]:
    """Return what builds a scene; all of them are closed afterwards."""
    from rpent_box_robotwin.environment import RobotwinEnvironment, SceneName

    with ExitStack() as built:

        def one(
            seed: int,
            suite: str = "demo_clean",
            task: str = "stack_blocks_two",
            root: Path = assets,
        ) -> RobotwinEnvironment:
            name = SceneName(suite=suite, task=task, seed=seed)
            environment = RobotwinEnvironment(name, assets=root, renderer=renderer)
            built.callback(environment.close)
            return environment

        yield one


def stock_task(seed: int, assets: Path, renderer: Renderer) -> Any:
    """Return the stock task, built as its own evaluation does, and touched by nothing of ours."""
    from rpent_box_robotwin.environment import SceneName, _arguments, _new_task

    name = SceneName(suite="demo_clean", task="stack_blocks_two", seed=seed)
    task = _new_task(name.task)
    with assets_in(assets), renderer.in_charge(), quiet():
        arguments = _arguments(name, assets)
        task.setup_demo(now_ep_num=0, seed=seed, is_test=True, **arguments)
    return task


def joint_path(environment: RobotwinEnvironment, rows: int = 5) -> np.ndarray:
    """Return joint commands [rows, 14] that move both arms and close the left gripper."""
    path = np.tile(environment.robot_state()["qpos_target14"], (rows, 1))
    reached = np.linspace(1 / rows, 1, rows)[:, np.newaxis]
    path[:, :6] += reached * [0.15, 0.1, 0.1, -0.1, 0.05, 0.2]
    path[:, 7:13] += reached * [-0.1, 0.1, 0.05, 0.1, -0.05, -0.2]
    path[:, 6:7] -= 0.6 * reached
    return path


# --- what fixes a scene -------------------------------------------------------------------------


def test_a_seed_repeats_whatever_was_built_between_and_another_one_differs(build: Build) -> None:
    first = build(A)
    for row in joint_path(first, 2):
        first.step(row, "qpos")
    moved = first.state()
    other = build(B)
    again = build(A)
    assert again.state() != other.state()
    assert again.facts == first.facts
    start = again.state()
    np.random.seed(1)
    assert build(A).state() == start
    for row in joint_path(again, 2):
        again.step(row, "qpos")
    assert again.state() == moved != start


def test_a_scene_and_its_steps_and_frames_are_the_stock_ones(
    build: Build, assets: Path, renderer: Renderer
) -> None:
    ours, stock = build(A), stock_task(A, assets, renderer)
    assert ours.state().physics == stock.scene.physx_system.pack()
    for row in joint_path(ours):
        solved = ours.step(row, "qpos")
        with quiet():
            stock.take_action(row)
        assert solved == bool(stock.eval_success) is False
    assert ours.state().physics == stock.scene.physx_system.pack()
    drawn = ours.draw(("head", "left_wrist", "right_wrist"))
    shown = stock.get_obs()
    for role, camera in (
        ("head", "head_camera"),
        ("left_wrist", "left_camera"),
        ("right_wrist", "right_camera"),
    ):
        assert drawn[role].tobytes() == shown["observation"][camera]["rgb"].tobytes(), role
    state = ours.robot_state()
    assert state["qpos_target14"].tolist() == shown["joint_action"]["vector"].tolist()
    for side in ("left", "right"):
        assert state[f"{side}_eef_pose"].tolist() == shown["endpose"][f"{side}_endpose"]
        assert float(state[f"{side}_gripper"]) == shown["endpose"][f"{side}_gripper"]
    with quiet():
        stock.close_env()


def test_a_randomized_table_is_a_function_of_its_seed(
    build: Build, assets: Path, tmp_path: Path
) -> None:
    root = cluttered_assets(tmp_path, assets)
    first = build(A, "demo_randomized", root=root)
    clutter = [actor for actor in first._stock.scene.get_all_actors() if actor.name == "parcel"]
    assert len(clutter) > 2
    assert first._stock.wall_texture.startswith("unseen/")
    start, frame = first.state(), first.draw(("head",))["head"]
    other = build(B, "demo_randomized", root=root)
    assert other.state().lights != start.lights
    again = build(A, "demo_randomized", root=root)
    assert again.state() == start
    assert again.draw(("head",))["head"].tobytes() == frame.tobytes()


def test_flickering_lights_do_not_depend_on_who_looks_or_draws_numbers(
    build: Build, assets: Path, tmp_path: Path
) -> None:
    root = cluttered_assets(tmp_path, assets)
    seeds = range(A, A + 1000)
    flickers = next(seed for seed in seeds if np.random.RandomState(seed).rand() < 0.02)
    first, second = (build(flickers, "demo_randomized", root=root) for _ in range(2))
    start = first.state().lights
    for row in joint_path(first, 2):
        first.step(row, "qpos")
        second.step(row, "qpos")
        second.draw(("head",))
        np.random.rand()
    assert first.state().lights != start
    assert first.state() == second.state()


def test_default_arguments_do_not_pile_up_from_scene_to_scene(build: Build) -> None:
    scene = build(A)
    method = type(scene._stock).get_cluttered_table
    written = ([-0.59, 0.59], [-0.34, 0.34], [0.741])
    assert method.__defaults__[1:] == written
    scene._stock.table_xy_bias = [0.3, 0]
    scene._stock.clean_background_rate = 2.0  # it moves the limits, then leaves the table clean
    scene._stock.get_cluttered_table()
    assert method.__defaults__[1:] != written
    build(B)
    assert method.__defaults__[1:] == written


def test_generators_continue_where_their_scene_left_them() -> None:
    wanted = np.random.RandomState(7).rand(4)
    np.random.seed(99)
    scene = Randomness(7)
    with scene.drawn_from():
        found = [np.random.rand(), np.random.rand()]
    between = np.random.rand()
    with scene.drawn_from():
        found += [np.random.rand(), np.random.rand()]
    np.testing.assert_array_equal(found, wanted)
    assert between == np.random.RandomState(99).rand()


def test_a_seed_that_does_not_settle_is_named_and_no_other_is_taken(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robotwin.envs._base_task import Base_Task

    monkeypatch.setattr(Base_Task, "check_stable", lambda _task: (False, ["box"]))
    with pytest.raises(SimulatorError, match="stack_blocks_two with scene seed 100000 does not se"):
        build(A)


def test_a_scene_without_its_objects_is_named(build: Build, assets: Path, tmp_path: Path) -> None:
    bare = cluttered_assets(tmp_path, assets)
    with pytest.raises(SimulatorError, match="click_bell with scene seed 100000 cannot be built"):
        build(A, task="click_bell", root=bare)


# --- how it is moved ----------------------------------------------------------------------------


def test_joint_commands_are_tracked_within_a_hundredth_of_a_radian(build: Build) -> None:
    scene = build(A)
    for row in joint_path(scene):
        scene.step(row, "qpos")
        state = scene.robot_state()
        np.testing.assert_allclose(state["qpos_target14"], row, atol=1e-7)
        arms = np.delete(row, [6, 13])
        np.testing.assert_allclose(state["arm_qpos_real12"], arms, atol=0.01)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_hand_command_moves_the_named_arm_to_the_asked_pose(build: Build, side: str) -> None:
    scene = build(B)
    command = hands(scene)
    start, first = command.copy(), FIRST[side]
    moves = [(0, 0, 0.05), (0, 0.08, 0), (0.05, 0, 0), (-0.02, 0.05, 0.04), (0, 0.05, -0.06)]
    for number, move in enumerate(moves):
        command[first : first + 3] += move
        command[first + 3 : first + 7] = turned(start[first + 3 : first + 7], 0.05 * number)
        command[first + 7] = 1 - 0.2 * number
        scene.step(command, "ee")
        reached = hands(scene)
        assert np.linalg.norm(reached[first : first + 3] - command[first : first + 3]) < 0.004
        assert angle(reached[first + 3 : first + 7], command[first + 3 : first + 7]) < 0.01
        assert reached[first + 7] == pytest.approx(command[first + 7])
    other = 8 - first
    assert np.linalg.norm(hands(scene)[other : other + 3] - start[other : other + 3]) < 1e-4
    for _ in range(3):  # told again, it settles where it was asked to be
        scene.step(command, "ee")
    assert np.linalg.norm(hands(scene)[first : first + 3] - command[first : first + 3]) < 0.001
    assert not scene.unplanned


def test_equal_hand_commands_have_equal_consequences(build: Build) -> None:
    ends = []
    for _ in range(2):
        scene = build(A)
        command = hands(scene)
        command[[1, 2, 9, 10]] += 0.06
        scene.step(command, "ee")
        ends.append(scene.state())
        np.random.rand(3)
    assert ends[0] == ends[1]


def test_a_posture_is_found_again_from_its_hands_pose(build: Build) -> None:
    scene = build(A)
    posed = scene.robot_state()["qpos_target14"]
    posed[:6] = [0.5, 1.4, 1.2, -0.5, 0.3, 1.0]
    for _ in range(4):
        scene.step(posed, "qpos")
    command = hands(scene)
    scene = build(A)
    for _ in range(4):
        scene.step(command, "ee")
    assert np.linalg.norm(hands(scene)[:3] - command[:3]) < 0.002
    assert angle(hands(scene)[3:7], command[3:7]) < 0.005


def test_a_hand_that_is_there_already_is_held_for_a_fifth_of_a_second(build: Build) -> None:
    scene = build(A)
    steps = count_physics_steps(scene)
    scene.step(hands(scene), "ee")
    assert len(steps) == 50
    assert not scene.unplanned


@pytest.mark.parametrize(
    ("move_rad", "unplanned"), [(0.0003, {}), (0.01, {"left": 1})], ids=["tiny", "longer"]
)
def test_a_motion_that_cannot_be_timed_ends_nothing(
    build: Build, monkeypatch: pytest.MonkeyPatch, move_rad: float, unplanned: dict[str, int]
) -> None:
    scene = build(A)
    _, left = scene._planners[0]
    start = scene.robot_state()["qpos_target14"]
    monkeypatch.setattr(left, "solve", lambda _pose: start[:6] + [0, 0, move_rad, 0, 0, 0])
    monkeypatch.setattr(left, "_planner", Untimed())
    steps = count_physics_steps(scene)
    scene.step(hands(scene), "ee")
    assert len(steps) == 50
    np.testing.assert_array_equal(scene.robot_state()["qpos_target14"], start)
    assert dict(scene.unplanned) == unplanned


def test_the_smallest_motions_of_a_hand_never_end_an_episode(build: Build) -> None:
    scene = build(A)
    _, planner = scene._planners[0]
    draw = np.random.default_rng(0)
    answers = set()
    for _ in range(600):
        goal = planner._set_points() + draw.uniform(-3e-4, 3e-4, 6) * draw.integers(0, 2, 6)
        planner.solve = lambda _pose, goal=goal: goal
        answers.add(planner.plan(np.zeros(7))["status"])
        assert not planner.failed
    assert answers == {"Success", "Rest"}


def test_a_pose_out_of_reach_holds_its_arm_and_is_counted_and_said(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    scene = build(A)
    command, start = hands(scene), hands(scene)
    command[1] += 2.0
    command[10] += 0.05
    for _ in range(3):
        scene.step(command, "ee")
    reached = hands(scene)
    assert np.linalg.norm(reached[:3] - start[:3]) < 1e-4
    assert np.linalg.norm(reached[8:11] - command[8:11]) < 0.001
    assert dict(scene.unplanned) == {"left": 3}
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split(":")[0] for text in said] == [
        "stack_blocks_two, scene seed 100000",
        "stack_blocks_two, scene seed 100000",
    ]
    assert "the left hand cannot reach its target in step 1 and is held (1 so far" in said[0]


def test_the_task_is_solved_by_its_own_rule_and_stops_there(build: Build) -> None:
    import sapien

    scene = build(A)
    assert not scene.solved
    hold = scene.robot_state()["qpos_target14"]
    steps = count_physics_steps(scene)
    assert not scene.step(hold, "qpos")
    whole = len(steps)
    below = scene._stock.block1.get_pose()
    on_top = below.p + np.array([0, 0, 0.05], dtype=np.float32)
    scene._stock.block2.actor.set_pose(sapien.Pose(on_top, below.q))
    steps.clear()
    assert scene.step(hold, "qpos")
    assert 0 < len(steps) < whole
    assert scene.solved


def test_a_closed_gripper_is_not_solved_though_the_blocks_are_stacked(build: Build) -> None:
    import sapien

    scene = build(A)
    closed = scene.robot_state()["qpos_target14"]
    closed[6] = 0
    for _ in range(2):
        scene.step(closed, "qpos")
    below = scene._stock.block1.get_pose()
    on_top = below.p + np.array([0, 0, 0.05], dtype=np.float32)
    scene._stock.block2.actor.set_pose(sapien.Pose(on_top, below.q))
    assert not scene.step(closed, "qpos")


def test_nobody_stops_at_the_stock_limit_who_was_allowed_more(build: Build) -> None:
    scene = build(A)
    hold = scene.robot_state()["qpos_target14"]
    scene._stock.take_action_cnt = 800
    moved = hold.copy()
    moved[0] += 0.1
    scene.step(moved, "qpos")
    assert scene.robot_state()["qpos_target14"][0] == pytest.approx(0.1)


# --- what is kept -------------------------------------------------------------------------------


def test_a_recorded_moment_is_drawn_as_it_was(build: Build) -> None:
    scene = build(A)
    path = joint_path(scene)
    assert scene.untouched
    scene.step(path[-1], "qpos")
    assert not scene.untouched
    then, seen = scene.state(), scene.draw(("left_wrist", "head"))
    assert list(seen) == ["left_wrist", "head"]
    for row in path:
        scene.step(row, "qpos")
    assert scene.draw(("head",))["head"].tobytes() != seen["head"].tobytes()
    scene.restore(then)
    for role, frame in scene.draw(("left_wrist", "head")).items():
        assert frame.tobytes() == seen[role].tobytes(), role


class Untimed:
    """A planner for whose paths there is no timing, as toppra says it."""

    @staticmethod
    def TOPP(_path: object, _step_s: float) -> None:  # noqa: N802 - mplib's own name
        raise RuntimeError("Fail to parameterize path")


def count_physics_steps(scene: RobotwinEnvironment) -> list[None]:
    """Return a list that grows by one at every physics step of `scene` from now on."""
    counted: list[None] = []
    stock, step = scene._stock.scene, scene._stock.scene.step
    stock.step = lambda: (counted.append(None), step())
    return counted


def turned(quaternion_wxyz: np.ndarray, about_z_rad: float) -> np.ndarray:
    from transforms3d.quaternions import axangle2quat, qmult

    return np.asarray(qmult(axangle2quat([0, 0, 1], about_z_rad), quaternion_wxyz))


def angle(one: np.ndarray, other: np.ndarray) -> float:
    """Return how far two rotations are apart, in radians."""
    return float(2 * np.arccos(min(1.0, abs(float(np.dot(one, other))))))
