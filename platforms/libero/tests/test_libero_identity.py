# SPDX-License-Identifier: Apache-2.0
"""Our loop against the stock one: every state and every delivered frame, to the byte.

The stock loop is what anyone would write: seed, reset, set the initial state, ten dummy steps, then
step and draw everything. Ours draws one frame per chunk and compiles the scene once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation
from rpent_box.sim.platform import Scene
from rpent_box_libero import PLATFORM, PRO_PLATFORM
from rpent_box_libero.platform import LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import LIBERO, LIBERO_PRO, find_suite

pytestmark = pytest.mark.simulator

SEED = 7
CHUNK = 10


@dataclass
class Episode:
    """What a loop did and what it saw: one state and one raw observation per control step."""

    actions: NDArray[np.float32]
    states: list[NDArray[np.float64]] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)


def test_spatial_episodes_equal_the_stock_loops_in_any_order() -> None:
    order = (3, 0, 7)
    with prepared_process():
        stock = play_stock("libero_spatial", 0, order, steps=30, size=128, reach_for="bowl_1")
    for episode in stock.values():
        require_contact(episode)
    with opened(128) as platform:
        for init_state in (3, 0, 3, 7):
            require_same(platform, "libero_spatial", 0, init_state, stock[init_state])
    with opened(128) as platform:
        for init_state in (7, 3):
            require_same(platform, "libero_spatial", 0, init_state, stock[init_state])
            frames = list(platform.replay(2.0))  # draws, and leaves the scene anywhere
            assert len(frames) == 4
        platform.reset(Scene(suite="libero_spatial", task=0, init_state=0, seed=SEED + 1))
        require_same(platform, "libero_spatial", 0, 0, stock[0])


def test_a_lit_stove_is_out_again_after_a_reset() -> None:
    # Task 7 turns on the stove, whose burner's colour is written into the model.
    with prepared_process():
        stock = play_stock("libero_goal", 7, (4, 1), steps=20, size=128, reach_for="plate")
    with opened(128) as platform:
        require_same(platform, "libero_goal", 7, 1, stock[1])
        light_the_stove(platform)
        require_same(platform, "libero_goal", 7, 4, stock[4])
        require_same(platform, "libero_goal", 7, 1, stock[1])


def test_an_open_drawer_equals_a_new_process_for_each_episode() -> None:
    # Here the stock loop itself depends on how often it was reset, whatever the seed: LIBERO adds
    # one more sampler to the drawer at each reset. The reference is a fresh environment each time.
    with prepared_process():
        stock = {
            init_state: play_stock("libero_spatial", 4, (init_state,), steps=10, size=64)[
                init_state
            ]
            for init_state in (2, 5)
        }
    with opened(64) as platform:
        for init_state in (5, 2, 5):
            require_same(platform, "libero_spatial", 4, init_state, stock[init_state])


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "task"), [("libero_spatial", 0), ("libero_goal", 3)])
def test_whole_episodes_at_full_size_equal_the_stock_loops(suite: str, task: int) -> None:
    with prepared_process():
        stock = play_stock(suite, task, (3, 0), steps=110, size=256, reach_for="bowl")
    for episode in stock.values():
        require_contact(episode)
    with opened(256) as platform:
        for init_state in (0, 3, 0):
            require_same(platform, suite, task, init_state, stock[init_state])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "task"),
    [
        ("libero_goal_lan", 7),
        ("libero_spatial_object", 0),
        ("libero_goal_swap", 3),
        ("libero_10_task", 0),
        ("libero_spatial_with_mug", 4),
        ("libero_goal_with_milk", 7),
        ("libero_object_with_yellow_book", 0),
    ],
)
def test_perturbed_tasks_equal_the_stock_loops(suite: str, task: int) -> None:
    # A new stock environment for each episode: where a drawer is open, or a stove may be lit, the
    # stock loop depends on how often it was reset.
    with prepared_process():
        stock = {
            init_state: play_stock(
                suite, task, (init_state,), steps=20, size=64, reach_for="_1", platform=LIBERO_PRO
            )[init_state]
            for init_state in (2, 5)
        }
    with opened(64, pro=True) as platform:
        for init_state in (5, 2, 5):
            require_same(platform, suite, task, init_state, stock[init_state])


@contextmanager
def opened(size: int, *, pro: bool = False) -> Iterator[LiberoPlatform]:
    plugin = PRO_PLATFORM if pro else PLATFORM
    platform = plugin.open(LiberoOptions(image_size=size))
    assert isinstance(platform, LiberoPlatform)
    try:
        yield platform
    finally:
        platform.close()


def play_stock(
    suite: str,
    task: int,
    order: Sequence[int],
    *,
    steps: int,
    size: int,
    reach_for: str = "bowl",
    platform: str = LIBERO,
) -> dict[int, Episode]:
    from libero.libero.envs import OffScreenRenderEnv

    from rpent_box_libero.tasks import find_task

    files = find_task(suite, find_suite(suite, platform=platform).tasks[task])
    init_states = files.init_states()
    env = OffScreenRenderEnv(
        bddl_file_name=str(files.bddl_file), camera_heights=size, camera_widths=size
    )
    played = {}
    for init_state in order:
        env.seed(SEED)
        env.reset()
        env.set_init_state(init_states[init_state])
        for _ in range(10):
            raw, *_ = env.step([0.0] * 6 + [-1.0])
        episode = Episode(np.zeros((0, 7), dtype=np.float32), [env.get_sim_state()], [raw])
        actions = []
        for step in range(steps):
            actions.append(grope(raw, step, reach_for))
            raw, _, solved, _ = env.step(actions[-1])
            episode.states.append(env.get_sim_state())
            episode.seen.append(raw)
            if solved:
                break
        episode.actions = np.stack(actions)
        played[init_state] = episode
    env.close()
    return played


def grope(raw: dict[str, Any], step: int, thing: str) -> NDArray[np.float32]:
    """Go down on something, close the gripper, and pull: clumsy, but full of contacts."""
    places = [value for name, value in raw.items() if thing in name and name.endswith("_pos")]
    hand = raw["robot0_eef_pos"]
    target = (places[0] if places else hand) + [0.0, 0.045, 0.01]
    action = np.zeros(7, dtype=np.float32)
    phase = step % 30
    action[:3] = np.clip((target - hand) / 0.05, -1, 1)
    action[3:6] = 0.1 * np.sin(0.7 * step + np.arange(3))
    if phase >= 20:
        action[:3] = (0.4, -0.4, 0.5)
    action[6] = 1.0 if phase >= 15 else -1.0
    return action


def require_same(
    platform: LiberoPlatform, suite: str, task: int, init_state: int, stock: Episode
) -> None:
    first = platform.reset(Scene(suite=suite, task=task, init_state=init_state, seed=SEED))
    require_same_observation(first, stock.seen[0])
    done, solved = 0, False
    while done < len(stock.actions) and not solved:
        applied = platform.apply(stock.actions[done : done + CHUNK])
        done, solved = done + applied.steps, applied.success
        if applied.observation is not None:
            require_same_observation(applied.observation, stock.seen[done])
    assert done == len(stock.actions)
    assert platform.recorded_states().tobytes() == np.array(stock.states).tobytes()


def require_same_observation(ours: Observation, raw: dict[str, Any]) -> None:
    for camera, role in (("agentview", "primary"), ("robot0_eye_in_hand", "wrist")):
        assert ours.images[role].tobytes() == raw[f"{camera}_image"][::-1].tobytes(), role
    for name, key in (
        ("eef_position", "robot0_eef_pos"),
        ("eef_quaternion_xyzw", "robot0_eef_quat"),
        ("gripper_qpos", "robot0_gripper_qpos"),
        ("gripper_qvel", "robot0_gripper_qvel"),
        ("joint_positions", "robot0_joint_pos"),
        ("joint_velocities", "robot0_joint_vel"),
    ):
        assert ours.proprio[name].tobytes() == raw[key].astype(np.float32).tobytes(), name


def require_contact(episode: Episode) -> None:
    """Without contact, the comparison would say little about the solver's memory."""
    things = [name for name in episode.seen[0] if name.endswith("_pos") and "robot0" not in name]
    moved = [np.abs(episode.seen[-1][name] - episode.seen[0][name]).max() for name in things]
    assert max(moved) > 0.001  # what only rests where it settled moves by less than a micrometre


def light_the_stove(platform: LiberoPlatform) -> None:
    environment = platform._current()
    problem = environment.problem
    before = problem.sim.model.site_rgba.copy()
    problem.object_states_dict["flat_stove_1"].set_joint(1.0)
    environment.step(np.zeros(7), render=False)
    assert environment.is_solved()
    assert not np.array_equal(before, problem.sim.model.site_rgba)
