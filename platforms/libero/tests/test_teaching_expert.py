# SPDX-License-Identifier: Apache-2.0
"""The expert for bowls, and the height of the ground, without a simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rpent_box_libero.teaching.lessons import find_lesson, lessons
from rpent_box_libero.teaching.lessons_spatial import SPATIAL
from rpent_box_libero.teaching.skills.bowl import Drawer, Grip, PutBowl
from rpent_box_libero.teaching.skills.ground import TABLE_M, Ground
from rpent_box_libero.teaching.skills.motion import HAND_DOWN, rotation_vector, turned_about_z
from rpent_box_libero.teaching.state import Pose, SceneState

BOWL = np.array([0.0, 0.1, 0.90])
PLATE = np.array([0.05, 0.25, 0.90])
OFFSET = np.array([0.0, 0.045, 0.025])
GRASP = BOWL + OFFSET
CABINET = np.array([0.03, -0.27, 0.905])
CABINET_YAW = 2.69
HOME = np.array([-0.2, 0.0, 1.17])
OPEN, RIM = 0.079, 0.009
UPRIGHT = np.eye(3)


def scene(
    *,
    hand: np.ndarray = HOME,
    aperture: float = OPEN,
    bowl: np.ndarray = BOWL,
    plate: np.ndarray = PLATE,
    bowl_rotation: np.ndarray = UPRIGHT,
    drawer: float = 0.0,
) -> SceneState:
    cabinet = turned_about_z(UPRIGHT, CABINET_YAW)
    return SceneState(
        hand=hand,
        hand_rotation=HAND_DOWN,
        aperture=aperture,
        bodies={
            "robot0_base": Pose(np.array([-0.66, 0.0, 0.9]), UPRIGHT),
            "akita_black_bowl_1_main": Pose(bowl, bowl_rotation),
            "plate_1_main": Pose(plate, UPRIGHT),
            "wooden_cabinet_1_main": Pose(CABINET, cabinet),
            "wooden_cabinet_1_cabinet_top": Pose(CABINET + cabinet @ [0.0, drawer, 0.0], cabinet),
        },
        sites={},
        joints={"wooden_cabinet_1_top_level": drawer},
    )


START = scene()


def held(bowl: np.ndarray, *, drawer: float = 0.0) -> SceneState:
    return scene(hand=bowl + OFFSET, aperture=RIM, bowl=bowl, drawer=drawer)


def test_it_starts_towards_the_rim_with_an_open_hand() -> None:
    action = PutBowl().act(START)
    assert action[0] > 0
    assert action[1] > 0
    assert action[6] == -1


def test_it_stays_high_until_it_is_above_the_rim() -> None:
    beside = scene(hand=GRASP + [0.05, 0.0, 0.10])
    above = scene(hand=GRASP + [0.0, 0.0, 0.10])
    assert abs(PutBowl().act(beside)[2]) < 0.05
    assert PutBowl().act(above)[2] == -1


def test_it_rises_when_it_is_beside_the_bowl_and_too_low() -> None:
    action = PutBowl().act(scene(hand=GRASP + [0.05, 0.0, 0.0]))
    assert action[2] == 1
    assert abs(action[0]) < 0.6


def test_it_closes_where_the_rim_is_between_the_fingers() -> None:
    assert PutBowl().act(scene(hand=GRASP))[6] == 1
    assert PutBowl().act(scene(hand=GRASP + [0.015, 0.0, 0.0]))[6] == -1


def test_a_grasp_that_has_begun_is_finished_from_further_away() -> None:
    assert PutBowl().act(scene(hand=GRASP + [0.015, 0.0, 0.0], aperture=0.05))[6] == 1


def test_it_lifts_before_it_crosses() -> None:
    action = PutBowl().act(held(BOWL))
    assert action[:2].tolist() == [0, 0]
    assert action[2] == 1
    assert action[6] == 1


def test_it_carries_towards_the_goal() -> None:
    action = PutBowl().act(held(BOWL + [0.0, 0.0, 0.09]))
    assert action[0] > 0.3
    assert action[1] == 1
    assert action[6] == 1


def test_it_lowers_over_the_goal_and_lets_go_on_it() -> None:
    assert PutBowl().act(held(PLATE + [0.0, 0.0, 0.08]))[2] == -1
    placed = PutBowl().act(held(PLATE + [0.0, 0.0, 0.010]))
    assert placed[6] == -1
    assert placed[2] == 0


def test_it_rises_only_once_its_hand_is_open() -> None:
    placed = PLATE + [0.0, 0.0, 0.005]
    assert PutBowl().act(scene(bowl=placed, hand=placed + OFFSET, aperture=0.07))[2] == 1


def test_it_lets_go_when_the_goal_hangs_between_the_fingers_too() -> None:
    state = held(BOWL + [0, 0, 0.09])
    raised = scene(
        hand=state.hand, aperture=RIM, bowl=BOWL + [0, 0, 0.09], plate=PLATE + [0.0, 0.0, 0.04]
    )
    action = PutBowl().act(raised)
    assert action[6] == -1
    assert action[2] == 1


def test_it_lifts_a_bowl_over_the_drawers_front_before_it_crosses() -> None:
    in_drawer = CABINET + [0.06, 0.13, 0.16]
    for height, crosses in ((0.0, False), (0.06, False), (0.14, True)):
        action = PutBowl().act(held(in_drawer + [0.0, 0.0, height], drawer=-0.15))
        assert bool(action[1] == 1) is crosses, height


def test_it_rises_to_clear_a_cabinet_on_its_way() -> None:
    beyond = CABINET + [0.0, 0.05, 0.10]
    assert PutBowl().act(scene(hand=beyond))[2] == 1
    far = beyond + [0.0, 0.35, 0.0]
    assert PutBowl().act(scene(hand=far))[2] < 0.5


def test_the_ground_is_the_cabinets_top_there_and_its_open_drawer_and_the_table_elsewhere() -> None:
    def height(place: np.ndarray, drawer: float = 0.0) -> float:
        return Ground().height_below(scene(drawer=drawer), place, but="akita_black_bowl_1")

    before = CABINET + [0.10, 0.25, 0.0]
    assert height(CABINET) == pytest.approx(CABINET[2] + 0.222)
    assert height(before, drawer=-0.15) == pytest.approx(CABINET[2] + 0.222)
    assert height(before) < TABLE_M + 0.15
    assert height(np.array([0.0, 0.3, 0.9])) == TABLE_M


def test_the_bowl_itself_is_no_obstacle() -> None:
    assert Ground().height_below(START, BOWL, but="akita_black_bowl_1") == TABLE_M
    assert Ground().height_below(START, BOWL, but="akita_black_bowl_2") > TABLE_M + 0.04


def test_a_grip_that_is_turned_turns_the_hand_and_the_place_on_the_rim() -> None:
    grip = Grip(turn_rad=np.pi / 2)
    assert grip.offset == pytest.approx([-0.045, 0.0, 0.025])
    assert rotation_vector(grip.hand_rotation @ HAND_DOWN.T) == pytest.approx(
        [0, 0, np.pi / 2], abs=1e-4
    )


def test_in_a_drawer_fingers_open_towards_the_corner_that_is_left_free() -> None:
    drawer = -0.15
    state = scene(drawer=drawer)
    centre = state.bodies["wooden_cabinet_1_cabinet_top"]

    def turn(x: float, z: float = 0.16) -> float:
        bowl = centre.position + centre.rotation @ [x, 0.0, z]
        return Drawer().grip(state, bowl, otherwise=Grip(turn_rad=9.0)).turn_rad

    assert 0.2 <= turn(0.03) < turn(0.0) < turn(-0.03) <= 0.75
    assert turn(0.0, z=0.25) == 9.0
    assert turn(0.2) == 9.0


def test_a_bowl_that_has_fallen_into_the_corner_is_taken_from_its_other_side() -> None:
    state = scene(drawer=-0.15)
    drawer = state.bodies["wooden_cabinet_1_cabinet_top"]

    def offset(x: float, y: float) -> np.ndarray:
        bowl = drawer.position + drawer.rotation @ [x, y, 0.17]
        return np.asarray(drawer.rotation.T @ Drawer().grip(state, bowl, otherwise=Grip()).offset)

    fresh, fallen = offset(0.003, 0.011), offset(0.048, -0.03)
    assert fresh[0] > 0 > fresh[1], "towards the corner, where fingers have room"
    assert fallen[0] < 0 < fallen[1], "away from it, where they have some then"


def test_between_walls_it_is_drawn_sideways_more_than_it_presses_down() -> None:
    bowl = CABINET + [0.06, 0.13, 0.16]
    skill = PutBowl(drawer=Drawer())
    state = scene(bowl=bowl, drawer=-0.15)
    grasp = bowl + skill._grip(state).offset
    action = skill.act(scene(hand=grasp + [0.009, -0.009, 0.04], bowl=bowl, drawer=-0.15))
    assert action[6] == -1
    assert action[:2] == pytest.approx([-0.86, 0.86], abs=0.02)
    assert -0.7 < action[2] < 0


def test_a_bowl_is_carried_straight_and_without_jerks() -> None:
    action = PutBowl().act(held(PLATE + [-0.2, -0.4, 0.09]))
    assert action[1] == pytest.approx(2 * action[0], rel=0.01)


def test_a_rim_that_has_slipped_to_the_finger_tips_is_still_held() -> None:
    assert PutBowl().is_held(replace(held(BOWL + [0, 0, 0.1]), aperture=0.0037))
    assert not PutBowl().is_held(replace(held(BOWL + [0, 0, 0.1]), aperture=0.001))


def test_actions_stay_within_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        state = scene(
            hand=rng.uniform(-1, 1, 3),
            bowl=rng.uniform(-1, 1, 3),
            plate=rng.uniform(-1, 1, 3),
            aperture=float(rng.uniform(0, 0.08)),
            drawer=float(rng.uniform(-0.16, 0.0)),
        )
        for skill in (PutBowl(), PutBowl(drawer=Drawer())):
            action = skill.act(state)
            assert np.isfinite(action).all()
            assert np.abs(action).max() <= 1


def test_one_state_has_one_action() -> None:
    expert = PutBowl()
    first = expert.act(START)
    expert.act(held(BOWL))
    assert np.array_equal(expert.act(START), first)


def test_the_hand_is_turned_back_down() -> None:
    angle = 0.3
    tilt = np.array(
        [[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]]
    )
    action = PutBowl().act(replace(START, hand_rotation=tilt @ HAND_DOWN))
    assert action[3] == pytest.approx(-0.6 * angle / 0.5, abs=1e-3)
    assert action[4:6] == pytest.approx([0, 0], abs=1e-3)


def test_a_rotation_vector_is_axis_times_angle() -> None:
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert rotation_vector(quarter) == pytest.approx([0, 0, np.pi / 2], abs=1e-4)
    assert rotation_vector(np.eye(3)).tolist() == [0, 0, 0]


def test_progress_grows_along_the_way() -> None:
    way = [
        START,
        scene(hand=GRASP),
        held(BOWL),
        held(BOWL + [0.0, 0.0, 0.09]),
        held(PLATE + [0.0, 0.0, 0.09]),
        held(PLATE + [0.0, 0.0, 0.005]),
    ]
    shown = [PutBowl().progress(state) for state in way]
    assert shown == sorted(shown)
    assert 0 <= shown[0] < 0.5
    assert shown[-1] == 1


@pytest.mark.parametrize(
    "lost",
    [
        scene(bowl_rotation=np.diag([1.0, 0.5, 0.5])),
        scene(plate=PLATE + [0.0, 0.0, 0.1]),
        scene(bowl=BOWL - [0.0, 0.0, 0.5]),
        scene(bowl=BOWL + [0.3, 0.0, 0.0]),
    ],
)
def test_a_scene_beyond_repair_is_called_lost(lost: SceneState) -> None:
    assert PutBowl().is_lost(lost)


def test_a_bowl_far_from_its_goal_and_high_up_is_not_lost() -> None:
    assert not PutBowl().is_lost(START)
    assert not PutBowl().is_lost(scene(bowl=CABINET + [0.03, 0.0, 0.222]))


def test_each_scene_of_the_suite_teaches_its_own_sentence_and_its_other_bowls() -> None:
    assert len(SPATIAL) == 20
    assert [lesson.task for lesson in SPATIAL] == [*range(10), *range(10)]
    assert all(lesson.says == lesson.task for lesson in SPATIAL[:10])
    assert all(lesson.says != lesson.task for lesson in SPATIAL[10:])
    assert find_lesson("libero_spatial-4-says-9") is SPATIAL[14]
    assert len({lesson.name for lesson in lessons()}) == len(lessons())
