# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from rldx_parts import PAST, a_modality

from rpent_box.backends.rldx.past import Recollection

NOW = a_modality()


def frames(level):
    return {role: np.full((2, 2, 3), level, np.uint8) for role in NOW.camera_roles}


def show(past, level):
    """Predict from frames of one grey; return all that the model sees."""
    images = past.with_past(frames(level))
    past.remember(frames(level))
    return images


def levels(images, role="wrist"):
    """Return which prediction's frame stands for each step, oldest first."""
    return [int(images[f"{role}_{steps}_steps_ago"][0, 0, 0]) for steps in PAST[:-1]]


@pytest.mark.parametrize(
    ("execute_steps", "wanted"),
    [
        (8, [3, 3, 3]),
        (4, [2, 3, 3]),
        (2, [1, 2, 3]),
        (3, [2, 2, 3]),
        (1, [0, 0, 2]),
        (6, [3, 3, 3]),
    ],
)
def test_a_frame_between_two_predictions_is_replaced_by_the_one_before_it(execute_steps, wanted):
    past = Recollection(a_modality(steps_ago=PAST), execute_steps)
    for level in range(4):
        show(past, level)
    assert levels(show(past, 4)) == wanted


def test_frames_that_fall_on_predictions_are_exactly_those():
    past = Recollection(a_modality(steps_ago=(16, 8, 0)), 8)
    shown = [show(past, level) for level in range(4)]
    assert int(shown[3]["wrist_8_steps_ago"][0, 0, 0]) == 2
    assert int(shown[3]["wrist_16_steps_ago"][0, 0, 0]) == 1


def test_the_first_frame_stands_for_all_that_came_before_it():
    past = Recollection(a_modality(steps_ago=PAST), 2)
    assert levels(show(past, 5)) == [5, 5, 5]
    assert levels(show(past, 6)) == [5, 5, 5]
    assert levels(show(past, 7)) == [5, 5, 6]


def test_what_is_remembered_is_a_copy_and_no_more_than_is_needed():
    past = Recollection(a_modality(steps_ago=PAST), 2)
    shown = frames(1)
    past.remember(shown)
    for image in shown.values():
        image[:] = 99
    assert levels(show(past, 2)) == [1, 1, 1]
    for level in range(3, 20):
        show(past, level)
    assert len(past._shown) == 3


def test_a_model_that_does_not_look_back_costs_nothing():
    past = Recollection(NOW, 8)
    assert show(past, 1).keys() == frames(1).keys()
    assert len(past._shown) == 0
