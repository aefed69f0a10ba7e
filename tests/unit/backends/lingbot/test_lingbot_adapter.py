# SPDX-License-Identifier: Apache-2.0
"""Names, the order of columns, and what is refused before anything moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from upstream_goldens import golden_cases

from rpent_box.backends.lingbot.adapter import ADAPTERS
from rpent_box.contracts.observation import Observation
from rpent_box.contracts.spaces import ROBOTWIN_EEF16
from rpent_box.errors import BadActions

ROBOTWIN = ADAPTERS["robotwin"]


def observation(**more):
    images = {
        role: np.full((2 + n, 3, 3), n, np.uint8)
        for n, role in enumerate(("head", "left_wrist", "right_wrist"))
    }
    proprio = {
        "left_eef_pose": np.arange(0, 7, dtype=np.float32),
        "left_gripper": np.array([7], np.float32),
        "right_eef_pose": np.arange(8, 15, dtype=np.float32),
        "right_gripper": np.array([15], np.float32),
    }
    return Observation(images=images, proprio={**proprio, **more}, instruction="stack the blocks")


def chunk(steps=50):
    rng = np.random.default_rng(0)
    return rng.normal(size=(steps, 16)).astype(np.float32)


def test_the_frame_has_the_server_s_names_in_the_order_of_the_package_s_client():
    request = ROBOTWIN.encode(observation(), 50)
    assert list(request) == [
        "observation.images.cam_high",
        "observation.images.cam_left_wrist",
        "observation.images.cam_right_wrist",
        "observation.state",
        "task",
    ]
    assert request["task"] == "stack the blocks"


def test_each_camera_sees_its_own_picture_unchanged():
    shown = observation()
    request = ROBOTWIN.encode(shown, 50)
    for camera, role in (
        ("cam_high", "head"),
        ("cam_left_wrist", "left_wrist"),
        ("cam_right_wrist", "right_wrist"),
    ):
        assert request[f"observation.images.{camera}"] is shown.images[role]


def test_the_state_is_left_pose_gripper_right_pose_gripper():
    state = ROBOTWIN.encode(observation(), 50)["observation.state"]
    assert state.dtype == np.float32
    np.testing.assert_array_equal(state, np.arange(16))


def test_the_state_is_made_of_what_robotwin_calls_it():
    seen = 0
    for case in golden_cases("physical_observation_robotwin"):
        named = {name: value.shape[0] for name, value in case.under("state/").items()}
        assert "images/head" in case
        for name, length in ROBOTWIN.proprio_schema.items():
            if name in named:
                assert named[name] == length
                seen += 1
    assert seen >= 4


def test_columns_agree_with_the_action_space():
    names = [field.name for field in ROBOTWIN_EEF16.fields]
    assert names[:3] == ["left_x", "left_y", "left_z"]
    assert names[3:7] == [f"left_quaternion_{part}" for part in "wxyz"]
    assert (names[7], names[15]) == ("left_gripper", "right_gripper")
    assert sum(ROBOTWIN.proprio_schema.values()) == len(names) == 16


def test_the_executed_steps_are_the_first_ones():
    output = chunk()
    actions = ROBOTWIN.decode(output, 20)
    assert (actions.shape, actions.dtype) == ((20, 16), np.float32)
    assert actions.flags.c_contiguous
    for columns in (slice(0, 3), slice(7, 11), slice(15, 16)):
        np.testing.assert_array_equal(actions[:, columns], output[:20, columns])


@settings(deadline=None)
@given(
    arrays(np.float32, (3, 16), elements=st.floats(-4, 4, width=32).filter(lambda x: abs(x) > 0.01))
)
def test_quaternions_become_unit_ones_and_keep_their_direction(output):
    actions = ROBOTWIN.decode(output, 3)
    for columns in (slice(3, 7), slice(11, 15)):
        np.testing.assert_allclose(np.linalg.norm(actions[:, columns], axis=1), 1, atol=1e-6)
        length = np.linalg.norm(output[:, columns].astype(np.float64), axis=1, keepdims=True)
        np.testing.assert_allclose(actions[:, columns] * length, output[:, columns], atol=1e-5)


def test_the_answer_is_not_changed_in_place():
    output = chunk()
    before = output.copy()
    ROBOTWIN.decode(output, 50)
    np.testing.assert_array_equal(output, before)


@pytest.mark.parametrize("columns", [slice(3, 7), slice(11, 15)])
def test_a_quaternion_of_zeros_is_refused(columns):
    output = chunk()
    output[4, columns] = 0
    with pytest.raises(BadActions, match="in step 4, columns"):
        ROBOTWIN.decode(output, 10)
    ROBOTWIN.decode(output, 4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 49])
def test_a_value_that_is_not_finite_is_refused_also_beyond_what_is_executed(value, row):
    output = chunk()
    output[row, 15] = value
    with pytest.raises(BadActions, match=f"in step {row}, column 15"):
        ROBOTWIN.decode(output, 10)


@pytest.mark.parametrize(
    "output",
    [
        chunk(9),
        chunk(0),
        chunk()[:, :15],
        chunk()[None],
        chunk()[0],
        chunk().astype(np.int32),
        np.full((50, 16), 1e300),
    ],
    ids=["short", "empty", "narrow", "batched", "flat", "integers", "too large for float32"],
)
def test_another_shape_or_type_is_refused(output):
    with pytest.raises(BadActions):
        ROBOTWIN.decode(output, 10)
