# SPDX-License-Identifier: Apache-2.0
"""How the expert of libero_object takes things and drops them, without a simulator and in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite
from rpent_box_libero.teaching.judge import judge
from rpent_box_libero.teaching.lessons_object import OBJECT, OTHERS, TARGETS
from rpent_box_libero.teaching.skills.basket import RIM_M, IntoBasket
from rpent_box_libero.teaching.skills.basket_grips import GROCERIES, find_grip, grocery_of
from rpent_box_libero.teaching.skills.motion import HAND_DOWN, turned_about_z
from rpent_box_libero.teaching.state import Pose, SceneState

Array = NDArray[np.float64]

OPEN = 0.0795
BASKET = Pose(np.array([0.0, 0.26, -0.005]), np.eye(3))
STANDING = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""The thing's y axis up, its x axis along the world's y."""
FLAT = np.diag([-1.0, -1.0, 1.0])
LYING = np.eye(3)
"""The thing's y axis along the world's y."""
NAMES = [f"{kind}_1" for kind in GROCERIES]


def rotation_of(name: str) -> Array:
    stands_on_y = grocery_of(name).stands_on == 1
    return STANDING if stands_on_y else FLAT


def scene(
    name: str, position: Array, rotation: Array | None = None, **others: tuple[float, ...]
) -> SceneState:
    """The thing on the floor or in the air, the basket, an open hand at its home."""
    bodies = {
        f"{name}_main": Pose(position, rotation_of(name) if rotation is None else rotation),
        "basket_1_main": BASKET,
        "robot0_link0": Pose(np.array([-0.6, 0.0, 0.0]), np.eye(3)),
    }
    for other, where in others.items():
        bodies[f"{other}_main"] = Pose(np.array(where), rotation_of(other))
    return SceneState(
        hand=np.array([-0.15, 0.0, 0.26]),
        hand_rotation=HAND_DOWN,
        aperture=OPEN,
        bodies=bodies,
        sites={},
        joints={},
    )


def on_floor(
    name: str, x: float = -0.1, y: float = -0.1, **others: tuple[float, ...]
) -> SceneState:
    half = np.array(grocery_of(name).half_size)
    height = float(half[grocery_of(name).stands_on])
    return scene(name, np.array([x, y, height]), **others)


def with_hand_at(state: SceneState, point: Array, aperture: float = OPEN) -> SceneState:
    return replace(state, hand=point, aperture=aperture)


def held(name: str, position: Array, rotation: Array | None = None) -> SceneState:
    state = scene(name, position, rotation)
    grip = find_grip(state, name)
    return with_hand_at(state, grip.point, grip.width)


@pytest.mark.parametrize("name", NAMES)
def test_each_thing_fits_between_the_fingers_without_a_turn_as_scenes_begin(name: str) -> None:
    grip = find_grip(on_floor(name), name)
    assert 0.01 < grip.width < 0.07
    assert grip.rotation == pytest.approx(HAND_DOWN, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_hand_follows_a_turned_thing_the_short_way(name: str) -> None:
    for turn in np.linspace(-3.1, 3.1, 15):
        rotation = turned_about_z(rotation_of(name), turn)
        grip = find_grip(scene(name, np.array([-0.1, -0.1, 0.07]), rotation), name)
        axis = grip.rotation @ [0.0, 1.0, 0.0]
        angle = np.arctan2(axis[0], -axis[1])
        assert abs(angle) <= np.pi / 2 + 1e-6
        if grocery_of(name).is_round:
            assert angle == pytest.approx(0.0)


def test_a_square_carton_needs_an_eighth_of_a_turn_at_most() -> None:
    for turn in np.linspace(-3.1, 3.1, 15):
        rotation = turned_about_z(STANDING, turn)
        grip = find_grip(scene("milk_1", np.array([-0.1, -0.1, 0.07]), rotation), "milk_1")
        cosine = (np.trace(grip.rotation @ HAND_DOWN.T) - 1.0) / 2.0
        assert cosine > np.cos(np.pi / 4) - 1e-6


def test_a_lying_can_is_taken_across() -> None:
    state = scene("tomato_sauce_1", np.array([-0.1, -0.1, 0.031]), LYING)
    closing = find_grip(state, "tomato_sauce_1").rotation[:, 1]
    assert abs(closing @ [0.0, 1.0, 0.0]) < 1e-6


def test_a_flat_box_is_taken_off_centre_beside_a_tall_thing() -> None:
    alone = find_grip(on_floor("butter_1", 0.05, -0.1), "butter_1").point
    beside = find_grip(on_floor("butter_1", 0.05, -0.1, milk_1=(0.1, -0.2, 0.07)), "butter_1")
    far = find_grip(on_floor("butter_1", 0.05, -0.1, milk_1=(0.15, 0.1, 0.07)), "butter_1")
    low = find_grip(on_floor("butter_1", 0.05, -0.1, cream_cheese_1=(0.1, -0.2, 0.009)), "butter_1")
    assert alone[0] - 0.024 < beside.point[0] < alone[0] - 0.01
    assert far.point == pytest.approx(alone)
    assert low.point == pytest.approx(alone)


def test_the_finger_tips_stay_off_the_floor() -> None:
    for name in NAMES:
        assert find_grip(on_floor(name), name).point[2] >= 0.012


def test_it_comes_down_only_above_the_thing() -> None:
    skill, state = IntoBasket("milk_1"), on_floor("milk_1")
    point = find_grip(state, "milk_1").point
    above = skill.act(with_hand_at(state, point + [0.0, 0.0, 0.08]))
    beside = skill.act(with_hand_at(state, point + [0.0, 0.05, 0.08]))
    below = skill.act(with_hand_at(state, point + [0.0, 0.08, 0.0]))
    assert above[2] == -1
    assert beside[2] > -0.1
    assert below[2] == 1
    assert abs(below[1]) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_it_closes_around_the_thing_and_nowhere_else(name: str) -> None:
    skill, state = IntoBasket(name), on_floor(name)
    point = find_grip(state, name).point
    assert skill.act(with_hand_at(state, point))[6] == 1
    assert skill.act(with_hand_at(state, point + [0.0, 0.03, 0.0]))[6] == -1
    assert skill.act(with_hand_at(state, point + [0.0, 0.0, 0.03]))[6] == -1


def test_fingers_closed_too_far_open_and_come_down_again_from_above() -> None:
    state = on_floor("alphabet_soup_1")
    point = find_grip(state, "alphabet_soup_1").point
    action = IntoBasket("alphabet_soup_1").act(with_hand_at(state, point + [0, 0, 0.04], 0.01))
    assert action[6] == -1
    assert action[2] > 0


def test_a_half_closed_hand_does_not_come_down() -> None:
    state = on_floor("alphabet_soup_1")
    point = find_grip(state, "alphabet_soup_1").point
    action = IntoBasket("alphabet_soup_1").act(with_hand_at(state, point + [0, 0, 0.08], 0.05))
    assert action[6] == -1
    assert action[2] > 0


@pytest.mark.parametrize("name", NAMES)
def test_it_lifts_then_crosses_then_lowers_and_lets_go(name: str) -> None:
    skill, lowest = IntoBasket(name), on_floor(name).thing(name).position[2]
    lift = skill.act(held(name, np.array([-0.1, -0.1, lowest])))
    cross = skill.act(held(name, np.array([-0.1, -0.1, lowest + RIM_M + 0.03])))
    lower = skill.act(held(name, np.array([0.0, 0.26, lowest + RIM_M + 0.02])))
    drop = skill.act(held(name, np.array([0.0, 0.26, lowest + RIM_M - 0.02])))
    assert (lift[2], lift[6]) == (1, 1)
    assert lift[:2] == pytest.approx([0, 0], abs=1e-6)
    assert cross[1] == 1
    assert cross[6] == 1
    assert lower[2] < -0.5
    assert lower[6] == 1
    assert drop[6] == -1


def test_a_thing_held_elsewhere_than_meant_is_carried_all_the_same() -> None:
    lifted = held("bbq_sauce_1", np.array([-0.1, -0.1, 0.15]))
    lower = with_hand_at(lifted, lifted.hand - [0.0, 0.0, 0.04], 0.037)
    assert IntoBasket("bbq_sauce_1").is_held(lower)
    standing = with_hand_at(on_floor("bbq_sauce_1"), lower.hand - [0.0, 0.0, 0.095], 0.06)
    assert not IntoBasket("bbq_sauce_1").is_held(standing)


def test_a_long_lying_thing_goes_in_heavy_end_first() -> None:
    skill = IntoBasket("ketchup_1")
    centred = held("ketchup_1", np.array([0.0, 0.26, 0.17]), LYING)
    out = held("ketchup_1", np.array([0.0, 0.288, 0.163]), LYING)
    assert skill.act(centred)[1] > 0.5
    assert skill.act(centred)[6] == 1
    assert skill.act(out)[6] == -1


def test_it_rises_once_the_thing_has_fallen() -> None:
    state = scene("milk_1", np.array([0.0, 0.26, 0.075]))
    action = IntoBasket("milk_1").act(with_hand_at(state, np.array([0.0, 0.26, 0.2]), 0.07))
    assert action[2] > 0.5
    assert action[6] == -1
    high = IntoBasket("milk_1").act(with_hand_at(state, np.array([0.0, 0.26, 0.3]), 0.07))
    assert high[:3] == pytest.approx([0, 0, 0], abs=1e-6)


def test_a_stretched_arm_is_pulled_back_harder() -> None:
    state = on_floor("tomato_sauce_1", 0.1, -0.2)
    far = with_hand_at(state, np.array([0.125, -0.206, 0.15]))
    tilt = np.array([[np.cos(0.2), 0, -np.sin(0.2)], [0, 1, 0], [np.sin(0.2), 0, np.cos(0.2)]])
    stretched = replace(far, hand_rotation=tilt.T @ HAND_DOWN)
    relaxed = replace(far, hand_rotation=tilt @ HAND_DOWN)
    pulls = [IntoBasket("tomato_sauce_1").act(each)[0] for each in (stretched, relaxed)]
    assert min(pulls) < 1.5 * max(pulls) < 0


def test_what_is_inside_is_done_and_what_is_beside_is_not() -> None:
    skill = IntoBasket("butter_1")
    assert skill.is_done(scene("butter_1", np.array([0.03, 0.29, 0.02])))
    assert not skill.is_done(scene("butter_1", np.array([0.0, 0.33, 0.02])))
    assert not skill.is_done(scene("butter_1", np.array([0.0, 0.26, 0.15])))


def test_what_is_out_of_reach_or_tipped_is_lost() -> None:
    skill, state = IntoBasket("butter_1"), on_floor("butter_1")
    assert not skill.is_lost(state)
    assert skill.is_lost(on_floor("butter_1", 0.4, -0.1))
    tipped = Pose(BASKET.position, STANDING)
    assert skill.is_lost(replace(state, bodies={**state.bodies, "basket_1_main": tipped}))


def test_progress_grows_along_the_way() -> None:
    skill, start = IntoBasket("milk_1"), on_floor("milk_1", -0.12, -0.24)
    way = [
        start,
        with_hand_at(start, find_grip(start, "milk_1").point),
        held("milk_1", np.array([-0.12, -0.24, 0.08])),
        held("milk_1", np.array([-0.12, -0.24, 0.24])),
        held("milk_1", np.array([0.0, 0.1, 0.24])),
        held("milk_1", np.array([0.0, 0.26, 0.2])),
        scene("milk_1", np.array([0.0, 0.26, 0.07])),
    ]
    shown = [skill.progress(state) for state in way]
    assert shown == sorted(set(shown))
    assert 0 <= shown[0] < 0.2
    assert shown[-1] == 1


def test_any_state_has_one_action_within_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        name = str(rng.choice(NAMES))
        rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        rotation[:, 0] *= np.linalg.det(rotation)
        state = scene(name, rng.uniform([-0.3, -0.4, 0.0], [0.3, 0.4, 0.4]), rotation)
        turned = turned_about_z(HAND_DOWN, float(rng.uniform(-1, 1)))
        near = state.thing(name).position + rng.normal(0, 0.05, 3)
        state = replace(state, hand=near, hand_rotation=turned, aperture=rng.uniform(0, 0.08))
        action, again = (IntoBasket(name).act(state) for _ in range(2))
        assert np.isfinite(action).all()
        assert np.abs(action).max() <= 1
        assert np.array_equal(action, again)
        assert 0 <= IntoBasket(name).progress(state) <= 1


def test_each_task_is_taught_in_its_own_scene_and_in_two_others() -> None:
    said = [lesson.says for lesson in OBJECT]
    assert len({lesson.name for lesson in OBJECT}) == len(OBJECT) == 30
    assert all(said.count(task) == 3 for task in range(len(TARGETS)))
    assert all(task not in others for task, others in enumerate(OTHERS))


@pytest.mark.simulator
def test_what_a_lesson_asks_for_stands_in_its_scene() -> None:
    with prepared_process():
        from rpent_box_libero.tasks import find_task, task_name

        suite = find_suite("libero_object")
        for lesson in OBJECT:
            scene = find_task(suite.name, task_name(suite, lesson.task)).bddl_file.read_text()
            assert f"(On {TARGETS[lesson.says]} floor_" in scene
            assert f"(In {TARGETS[lesson.task]} basket_1_contain_region)" in scene


@pytest.mark.simulator
@pytest.mark.parametrize("name", ["libero_object-1", "libero_object-7"])
def test_fresh_scenes_are_solved(name: str) -> None:
    verdict = judge(name, scenes=2, seed=11)
    assert verdict.solved == 2
    assert verdict.mean_steps < 130
