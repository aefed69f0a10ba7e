# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rpent_box_libero.teaching.expert import HAND_DOWN, Expert, SceneState, rotation_vector

BOWL = np.array([0.0, 0.1, 0.90])
PLATE = np.array([0.05, 0.25, 0.90])
GRASP = BOWL + [0.0, -0.045, 0.025]
OPEN, RIM = 0.079, 0.009

START = SceneState(
    hand=np.array([-0.2, 0.0, 1.17]),
    hand_rotation=HAND_DOWN,
    aperture=OPEN,
    thing=BOWL,
    thing_upright=1.0,
    goal=PLATE,
)
HELD = replace(START, hand=GRASP, aperture=RIM)


def carried(position: np.ndarray) -> SceneState:
    return replace(HELD, thing=position, hand=position + [0.0, -0.045, 0.025])


def test_it_starts_towards_the_rim_with_an_open_hand() -> None:
    action = Expert().act(START)
    assert action[0] > 0
    assert action[1] > 0
    assert action[6] == -1


def test_it_stays_high_until_it_is_above_the_rim() -> None:
    beside = replace(START, hand=GRASP + [0.05, 0.0, 0.10])
    above = replace(START, hand=GRASP + [0.0, 0.0, 0.10])
    assert abs(Expert().act(beside)[2]) < 0.05
    assert Expert().act(above)[2] == -1


def test_it_rises_when_it_is_beside_the_object_and_too_low() -> None:
    action = Expert().act(replace(START, hand=GRASP + [0.05, 0.0, 0.0]))
    assert action[2] == 1
    assert abs(action[0]) < 0.6


def test_it_closes_where_the_rim_is_between_the_fingers() -> None:
    assert Expert().act(replace(START, hand=GRASP))[6] == 1
    assert Expert().act(replace(START, hand=GRASP + [0.015, 0.0, 0.0]))[6] == -1


def test_a_grasp_that_has_begun_is_finished_from_further_away() -> None:
    moved = replace(START, hand=GRASP + [0.015, 0.0, 0.0])
    assert Expert().act(replace(moved, aperture=0.05))[6] == 1


def test_it_lifts_before_it_crosses() -> None:
    action = Expert().act(HELD)
    assert action[:2].tolist() == [0, 0]
    assert action[2] == 1
    assert action[6] == 1


def test_it_carries_towards_the_goal() -> None:
    action = Expert().act(carried(BOWL + [0.0, 0.0, 0.09]))
    assert action[0] == 1
    assert action[1] == 1
    assert action[6] == 1


def test_it_lowers_over_the_goal_and_lets_go_on_it() -> None:
    assert Expert().act(carried(PLATE + [0.0, 0.0, 0.08]))[2] == -1
    placed = Expert().act(carried(PLATE + [0.0, 0.0, 0.010]))
    assert placed[6] == -1
    assert placed[2] == 0


def test_it_rises_only_once_its_hand_is_open() -> None:
    placed = carried(PLATE + [0.0, 0.0, 0.005])
    assert Expert().act(replace(placed, aperture=0.07))[2] == 1


def test_it_lets_go_when_the_goal_hangs_between_the_fingers_too() -> None:
    action = Expert().act(replace(carried(BOWL + [0, 0, 0.09]), goal=PLATE + [0.0, 0.0, 0.04]))
    assert action[6] == -1
    assert action[2] == 1


def test_actions_stay_within_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        state = replace(
            START,
            hand=rng.uniform(-1, 1, 3),
            thing=rng.uniform(-1, 1, 3),
            goal=rng.uniform(-1, 1, 3),
            aperture=float(rng.uniform(0, 0.08)),
        )
        action = Expert().act(state)
        assert np.isfinite(action).all()
        assert np.abs(action).max() <= 1


def test_one_state_has_one_action() -> None:
    expert = Expert()
    first = expert.act(START)
    expert.act(HELD)
    assert np.array_equal(expert.act(START), first)


def test_the_hand_is_turned_back_down() -> None:
    angle = 0.3
    tilt = np.array(
        [[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]]
    )
    action = Expert().act(replace(START, hand_rotation=tilt @ HAND_DOWN))
    assert action[3] == pytest.approx(-0.6 * angle / 0.5, abs=1e-3)
    assert action[4:6] == pytest.approx([0, 0], abs=1e-3)


def test_a_rotation_vector_is_axis_times_angle() -> None:
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert rotation_vector(quarter) == pytest.approx([0, 0, np.pi / 2])
    assert rotation_vector(np.eye(3)).tolist() == [0, 0, 0]


def test_progress_grows_along_the_way() -> None:
    way = [
        START,
        replace(START, hand=GRASP),
        HELD,
        carried(BOWL + [0.0, 0.0, 0.09]),
        carried(PLATE + [0.0, 0.0, 0.09]),
        carried(PLATE + [0.0, 0.0, 0.005]),
    ]
    shown = [Expert().progress(state) for state in way]
    assert shown == sorted(shown)
    assert 0 <= shown[0] < 0.3
    assert shown[-1] == 1


@pytest.mark.parametrize(
    "lost",
    [
        replace(START, thing_upright=0.5),
        replace(START, goal=PLATE + [0.0, 0.0, 0.1]),
        replace(START, thing=PLATE + [0.0, -0.3, 0.0]),
    ],
)
def test_a_scene_beyond_repair_is_called_lost(lost: SceneState) -> None:
    assert Expert().is_lost(lost)
    assert not Expert().is_lost(START)
