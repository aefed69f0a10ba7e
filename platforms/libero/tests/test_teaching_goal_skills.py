# SPDX-License-Identifier: Apache-2.0
"""The experts of libero_goal: what they do in states that are made up, and in one real scene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.lessons_goal import GOAL, SKILLS
from rpent_box_libero.teaching.skills.bottle import ON_RACK, PutBottle
from rpent_box_libero.teaching.skills.cheese import IntoBowl
from rpent_box_libero.teaching.skills.drawer import MIDDLE, TOP, OpenDrawer, tilted
from rpent_box_libero.teaching.skills.knob import TurnKnob
from rpent_box_libero.teaching.skills.motion import HAND_DOWN
from rpent_box_libero.teaching.skills.push import PushPlate
from rpent_box_libero.teaching.skills.spot import PutBowlAt
from rpent_box_libero.teaching.skills.stow import StowBowl
from rpent_box_libero.teaching.state import Pose, SceneState

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

Array = NDArray[np.float64]

UPRIGHT = np.eye(3)
HALF_TURN = np.diag([-1.0, -1.0, 1.0])
ON_SLOPE = np.array([[-1.0, 0.0, 0.0], [0.0, -0.462, -0.887], [0.0, -0.887, 0.462]])
OPEN, RIM, BOX, NECK, BAR, SHUT = 0.079, 0.009, 0.0425, 0.0150, 0.0195, 0.001


def pose(x: float, y: float, z: float, rotation: Array = UPRIGHT) -> Pose:
    return Pose(np.array([x, y, z]), rotation)


START = SceneState(
    hand=np.array([-0.21, 0.0, 1.17]),
    hand_rotation=HAND_DOWN,
    aperture=OPEN,
    bodies={
        "robot0_base": pose(-0.66, 0.0, 0.912),
        "akita_black_bowl_1_main": pose(-0.09, 0.0, 0.8984),
        "cream_cheese_1_main": pose(-0.05, 0.13, 0.9089, HALF_TURN),
        "wine_bottle_1_main": pose(-0.20, -0.05, 0.8989, HALF_TURN),
        "plate_1_main": pose(0.05, -0.02, 0.9025),
        "wooden_cabinet_1_main": pose(0.03, -0.24, 0.905, HALF_TURN),
        "wooden_cabinet_1_cabinet_top": pose(0.03, -0.24, 0.905, HALF_TURN),
        "wooden_cabinet_1_cabinet_middle": pose(0.03, -0.24, 0.905, HALF_TURN),
        "flat_stove_1_burner": pose(-0.26, 0.21, 0.905),
        "flat_stove_1_button": pose(-0.41, 0.21, 0.905),
    },
    sites={
        "flat_stove_1_cook_region": pose(-0.26, 0.21, 0.905),
        "wooden_cabinet_1_top_side": pose(0.026, -0.256, 1.1265, HALF_TURN),
        "wooden_cabinet_1_top_region": pose(0.026, -0.251, 1.0906, HALF_TURN),
        "wine_rack_1_top_region": pose(-0.26, -0.18, 1.1374, ON_SLOPE),
        "main_table_stove_front_region": pose(-0.05, 0.21, 0.895),
    },
    joints={
        "flat_stove_1_button": 0.0,
        "wooden_cabinet_1_top_level": 0.0,
        "wooden_cabinet_1_middle_level": 0.0,
        "wooden_cabinet_1_bottom_level": 0.0,
    },
)


def moved(state: SceneState, **positions: Array | list[float]) -> SceneState:
    """Return `state` with things elsewhere, as they stand."""
    bodies = dict(state.bodies)
    for name, position in positions.items():
        bodies[f"{name}_main"] = Pose(np.array(position), bodies[f"{name}_main"].rotation)
    return replace(state, bodies=bodies)


def turned(state: SceneState, name: str, rotation: Array) -> SceneState:
    bodies = {**state.bodies, name: Pose(state.bodies[name].position, rotation)}
    return replace(state, bodies=bodies)


def jointed(state: SceneState, joints: Mapping[str, float]) -> SceneState:
    return replace(state, joints={**state.joints, **joints})


def opened(state: SceneState, metres: float) -> SceneState:
    """Return `state` with the top drawer pulled out by so much."""
    out = np.array([0.0, metres, 0.0])
    drawer, site = "wooden_cabinet_1_cabinet_top", "wooden_cabinet_1_top_region"
    bodies, sites = dict(state.bodies), dict(state.sites)
    bodies[drawer] = Pose(bodies[drawer].position + out, HALF_TURN)
    sites[site] = Pose(sites[site].position + out, HALF_TURN)
    return jointed(
        replace(state, bodies=bodies, sites=sites), {"wooden_cabinet_1_top_level": -metres}
    )


def at(state: SceneState, hand: Array | list[float], aperture: float = OPEN) -> SceneState:
    return replace(state, hand=np.array(hand, dtype=np.float64), aperture=aperture)


def scattered(number: int) -> Iterator[SceneState]:
    """Yield states that no expert would reach: the hand, the fingers and the things anywhere."""
    rng = np.random.default_rng(7)
    names = ("akita_black_bowl_1", "cream_cheese_1", "wine_bottle_1", "plate_1")
    for _ in range(number):
        state = moved(
            START, **{name: rng.uniform([-0.4, -0.3, 0.9], [0.2, 0.3, 1.2]) for name in names}
        )
        state = opened(state, float(rng.uniform(0, 0.16)))
        state = jointed(state, {"flat_stove_1_button": float(rng.uniform(0, 2))})
        hand = rng.uniform([-0.45, -0.35, 0.9], [0.2, 0.35, 1.35])
        state = at(state, hand, float(rng.uniform(0, 0.08)))
        yield replace(state, hand_rotation=tilted(HAND_DOWN, float(rng.uniform(-1.4, 0.6))))


@pytest.mark.parametrize("task", sorted(SKILLS))
def test_any_state_has_one_label_within_limits(task: int) -> None:
    skill = SKILLS[task]
    for state in scattered(200):
        action = skill.act(state)
        assert action.shape == (7,)
        assert np.abs(action).max() <= 1
        assert action[6] in (-1.0, 1.0)
        assert np.array_equal(action, skill.act(state))
        assert 0 <= skill.progress(state) <= 1
        assert all(place.shape == (3,) for place in skill.places(state))


@pytest.mark.parametrize("task", sorted(SKILLS))
def test_nothing_is_done_or_lost_at_the_start(task: int) -> None:
    assert not SKILLS[task].is_done(START)
    assert not SKILLS[task].is_lost(START)
    assert SKILLS[task].progress(START) < 0.75


def test_each_lesson_teaches_its_own_scenes_sentence() -> None:
    assert [lesson.name for lesson in GOAL] == [f"libero_goal-{task}" for task in SKILLS]
    assert all(lesson.task == lesson.says for lesson in GOAL)


# The knob


KNOB = np.array([-0.41, 0.21, 0.905 + 0.036])


def test_the_knob_is_taken_by_its_bar_and_turned_anticlockwise() -> None:
    assert TurnKnob().act(at(START, KNOB))[6] == 1
    assert TurnKnob().act(at(START, KNOB + [0, 0, 0.05]))[6] == -1
    held = TurnKnob().act(at(START, KNOB, 0.028))
    assert held[5] > 0.5
    assert held[6] == 1


def test_the_hand_comes_down_on_the_knob_as_the_bar_stands() -> None:
    half_on = at(jointed(START, {"flat_stove_1_button": 0.4}), KNOB + [0, 0, 0.05])
    assert TurnKnob().act(half_on)[5] > 0.4
    assert abs(TurnKnob().act(half_on)[2]) < 1


def test_a_burning_stove_is_let_go() -> None:
    state = jointed(START, {"flat_stove_1_button": 0.7})
    assert TurnKnob().is_done(state)
    assert TurnKnob().act(at(state, KNOB, 0.028))[6] == -1
    assert TurnKnob().act(at(state, KNOB, 0.06))[2] == 1


# Drawers


def held_bar(state: SceneState) -> SceneState:
    skill = OpenDrawer(MIDDLE)
    return replace(at(state, MIDDLE.position(state), BAR), hand_rotation=skill.hand_rotation())


def test_a_handle_is_where_its_drawer_is() -> None:
    assert MIDDLE.position(START) == pytest.approx([0.033, -0.1384, 1.0154], abs=1e-4)
    out = TOP.position(opened(START, 0.1)) - TOP.position(START)
    assert out == pytest.approx([0, 0.1, 0])
    assert TOP.outward(START) == pytest.approx([0, 1, 0])


def test_the_hand_lies_on_its_side_for_a_handle() -> None:
    towards_cabinet = OpenDrawer().hand_rotation()[:, 2]
    assert towards_cabinet[1] < -0.95


def test_a_held_bar_is_pulled_out_and_a_bar_out_of_reach_is_not() -> None:
    pull = OpenDrawer().act(held_bar(START))
    assert pull[1] > 0.5
    assert pull[6] == 1
    away = OpenDrawer().act(at(START, MIDDLE.position(START) + [0, 0.09, 0], BAR))
    assert away[6] == -1


def test_the_hand_goes_in_only_beside_the_bar() -> None:
    lying = replace(START, hand_rotation=OpenDrawer().hand_rotation())
    before = MIDDLE.position(START) + [0, 0.09, 0]
    assert OpenDrawer().act(at(lying, before))[1] == -1
    assert abs(OpenDrawer().act(at(lying, before + [0.1, 0, 0.11]))[1]) < 0.1
    assert abs(OpenDrawer().act(at(START, before))[1]) < 0.1


def test_an_open_drawer_is_let_go() -> None:
    state = held_bar(jointed(START, {"wooden_cabinet_1_middle_level": -0.155}))
    assert OpenDrawer().is_done(state)
    assert OpenDrawer().act(state)[6] == -1


# A box into a bowl


def held_box(position: list[float]) -> SceneState:
    return at(moved(START, cream_cheese_1=position), position, BOX)


def test_a_held_box_is_lifted_before_it_crosses_and_dropped_over_the_bowl() -> None:
    skill = IntoBowl()
    low = skill.act(held_box([-0.05, 0.13, 0.909]))
    assert low[2] == 1
    assert abs(low[1]) < 0.01
    high = skill.act(held_box([-0.05, 0.13, 1.0]))
    assert high[1] == -1
    over = held_box([-0.09, 0.0, 0.8984 + 0.07])
    assert skill.act(over)[6] == -1
    assert not skill.is_done(over)


def test_a_box_in_the_bowl_is_done_and_a_tipped_bowl_is_lost() -> None:
    assert IntoBowl().is_done(moved(START, cream_cheese_1=[-0.08, 0.01, 0.93]))
    tipped = turned(START, "akita_black_bowl_1_main", tilted(UPRIGHT, 1.5))
    assert IntoBowl().is_lost(tipped)


# The bottle


def held_bottle(foot: list[float]) -> SceneState:
    return at(moved(START, wine_bottle_1=foot), np.array(foot) + [0, 0, 0.125], NECK)


def test_a_bottle_is_taken_by_its_neck() -> None:
    neck = np.array([-0.20, -0.05, 0.8989 + 0.125])
    assert PutBottle().act(at(START, neck))[6] == 1
    assert PutBottle().act(at(START, neck + [0, 0, 0.05]))[6] == -1


def test_a_held_bottle_is_lifted_carried_and_set_down() -> None:
    skill = PutBottle()
    place = START.sites["wooden_cabinet_1_top_side"].position + skill.shift
    assert skill.act(held_bottle([-0.2, -0.05, 0.92]))[2] == 1
    carried = skill.act(held_bottle([-0.2, -0.05, place[2] + 0.05]))
    assert carried[0] == 1
    assert carried[1] == -1
    assert carried[6] == 1
    assert skill.act(held_bottle([*place[:2], place[2] + 0.04]))[2] < -0.5
    assert skill.act(held_bottle([*place[:2], place[2]]))[6] == -1


def test_a_bottle_over_the_rack_leans_back_with_the_slope() -> None:
    place = START.sites["wine_rack_1_top_region"].position + ON_RACK.shift
    over = ON_RACK.act(held_bottle([*place[:2], place[2] + 0.05]))
    far = ON_RACK.act(held_bottle([place[0], place[1] + 0.2, place[2] + 0.05]))
    assert over[3] > 0.3
    assert abs(far[3]) < 0.01


def test_a_bottle_that_lies_on_the_table_is_lost_but_not_one_in_the_rack() -> None:
    lying = tilted(HALF_TURN, 1.03)
    assert ON_RACK.is_lost(turned(START, "wine_bottle_1_main", lying))
    rack = START.sites["wine_rack_1_top_region"].position
    in_rack = moved(START, wine_bottle_1=rack + [0.0, -0.016, 0.027])
    assert ON_RACK.is_done(in_rack)
    assert not ON_RACK.is_lost(turned(in_rack, "wine_bottle_1_main", lying))


# The plate


def test_a_plate_is_pushed_from_inside_its_rim() -> None:
    inside = at(START, [0.05, -0.02, 0.9025 + 0.014], SHUT)
    outside = at(START, [0.05, -0.10, 0.9025 + 0.014], SHUT)
    above = at(START, [0.05, -0.02, 0.98], SHUT)
    assert PushPlate().act(inside)[1] > 0.5
    assert PushPlate().act(inside)[2] < 0
    assert PushPlate().act(outside)[2] > 0.5
    assert abs(PushPlate().act(above)[1]) < 0.01
    assert PushPlate().act(above)[2] == -1


def test_a_plate_goes_past_the_box_first_and_is_left_where_it_belongs() -> None:
    skill = PushPlate()
    start = skill.act(at(START, [0.05, -0.02, 0.9165], SHUT))
    assert -0.1 < start[0] <= 0
    late = moved(START, plate_1=[0.05, 0.21, 0.9025])
    assert skill.act(at(late, [0.05, 0.21, 0.9165], SHUT))[0] < -0.5
    there = moved(START, plate_1=[-0.03, 0.21, 0.9025])
    assert skill.is_done(there)
    assert skill.act(at(there, [-0.03, 0.21, 0.9165], SHUT))[2] == 1


# Bowls at sites


def test_a_bowl_on_the_stove_is_done_and_on_the_table_is_not() -> None:
    skill = SKILLS[1]
    assert isinstance(skill, PutBowlAt)
    assert skill.is_done(moved(START, akita_black_bowl_1=[-0.25, 0.2, 0.929]))
    assert not skill.is_done(moved(START, akita_black_bowl_1=[-0.25, 0.2, 0.8984]))


def test_a_bowl_is_not_gone_for_while_the_drawer_is_shut() -> None:
    skill = StowBowl()
    towards_handle = skill.act(START)
    assert np.array_equal(towards_handle, skill.drawer.act(START))
    away = at(opened(START, 0.15), [-0.1, 0.05, 1.25])
    assert skill.act(away)[2] < 0


def test_a_bowl_comes_out_from_beside_the_drawer_before_it_goes_up() -> None:
    skill, state = StowBowl(), opened(START, 0.15)

    def held(bowl: list[float]) -> SceneState:
        return at(moved(state, akita_black_bowl_1=bowl), np.array(bowl) + skill.grip, RIM)

    assert skill.act(held([-0.09, 0.0, 0.92]))[0] == -1
    assert skill.act(held([-0.17, 0.0, 1.02]))[2] == 1
    assert skill.act(held([-0.17, 0.0, 1.17]))[0] == 1
    inside = state.sites[skill.into].position
    assert skill.is_done(moved(state, akita_black_bowl_1=inside))
    assert skill.act(held([*inside]))[6] == -1


@pytest.fixture(scope="module")
def scene() -> Iterator[TeachingScene]:
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        made = TeachingScene(find_lesson("libero_goal-0"))
        yield made
        made.close()


@pytest.mark.simulator
def test_the_middle_drawer_opens(scene: TeachingScene) -> None:
    scene.sample(np.random.default_rng([4, 0]), joint_noise_rad=0.03, render=False)
    solved = False
    while not solved and scene.steps < 110:
        solved = scene.execute(scene.skill.act(scene.state())[None], render=False)[1]
    assert solved
    assert scene.skill.is_done(scene.state())
