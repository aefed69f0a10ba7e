# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from upstream_goldens import golden_cases, golden_json, shown_by_libero

from rpent_box.backends.pi05.adapter import ADAPTERS
from rpent_box.backends.pi05.adapter.encode import encode_libero
from rpent_box.contracts.observation import Observation

FRAME = np.zeros((8, 8, 3), np.uint8)


def observation(
    quaternion: list[float] | None = None, instruction: str = "open the drawer"
) -> Observation:
    return Observation(
        images={"primary": FRAME, "wrist": FRAME},
        proprio={
            "eef_position": np.array([0.1, -0.2, 1.1], np.float32),
            "eef_quaternion_xyzw": np.array(quaternion or [1.0, 0.0, 0.0, 0.0], np.float32),
            "gripper_qpos": np.array([0.03, -0.02], np.float32),
        },
        instruction=instruction,
    )


def test_images_and_state_equal_what_openpis_libero_client_sends() -> None:
    for case in golden_cases("pi05_libero"):
        sent = encode_libero(shown_by_libero(case, np.float64, ""), None)
        assert np.array_equal(sent.image, case["image"]), case.name
        assert np.array_equal(sent.wrist_image, case["wrist_image"]), case.name
        # Where the case says float32, it is the float64 state, rounded.
        wanted = case["state_in"]
        assert np.array_equal(sent.state.astype(wanted.dtype), wanted), case.name


def test_a_state_in_float32_is_the_same_to_a_millionth() -> None:
    for case in golden_cases("pi05_libero"):
        sent = encode_libero(shown_by_libero(case, np.float32, ""), None)
        assert sent.state.dtype == np.float32
        np.testing.assert_allclose(sent.state, case["state_in"], rtol=1e-6, atol=1e-6)


def test_the_state_is_position_axis_angle_and_fingers_in_this_order() -> None:
    state = encode_libero(observation([0.0, 0.0, math.sin(0.25), math.cos(0.25)]), None).state
    np.testing.assert_allclose(
        state, [0.1, -0.2, 1.1, 0.0, 0.0, 0.5, 0.03, -0.02], rtol=1e-6, atol=1e-7
    )


@settings(max_examples=100, deadline=None)
@given(
    axis=st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3).filter(
        lambda axis: math.hypot(*axis) > 0.1
    ),
    angle=st.floats(0.2, 2 * math.pi - 0.2),
)
def test_an_angle_beyond_half_a_turn_stays_one(axis: list[float], angle: float) -> None:
    unit = np.array(axis) / math.hypot(*axis)
    quaternion = [*(unit * math.sin(angle / 2)).tolist(), math.cos(angle / 2)]
    turned: NDArray[Any] = encode_libero(observation(quaternion), None).state[3:6]
    np.testing.assert_allclose(turned, unit * angle, atol=1e-4)


def test_no_rotation_is_zeros_whichever_sign_the_quaternion_has() -> None:
    for w in (1.0, -1.0, 1.5):
        assert encode_libero(observation([0.0, 0.0, 0.0, w]), None).state[3:6].tolist() == [0, 0, 0]


def test_what_is_shown_is_not_written_to() -> None:
    shown = observation([0.0, 0.0, 0.0, 1.5])
    for array in (*shown.images.values(), *shown.proprio.values()):
        array.flags.writeable = False
    encode_libero(shown, None)
    assert shown.proprio["eef_quaternion_xyzw"][3] == 1.5


@pytest.mark.parametrize("instruction", ["", " pick\nup_it ", "Öffne die Schublade", "A" * 5000])
def test_the_instruction_is_passed_as_it_came(instruction: str) -> None:
    assert encode_libero(observation(instruction=instruction), None).prompt == instruction


def test_the_prompts_that_openpi_was_recorded_with_are_passed_as_they_came() -> None:
    for case in golden_json("pi05_prompt_text"):
        prompt = case["prompt"]
        assert encode_libero(observation(instruction=prompt), None).prompt == prompt


def test_both_platforms_have_the_same_pair() -> None:
    assert set(ADAPTERS) == {"libero", "libero-pro"}
    assert ADAPTERS["libero"] == ADAPTERS["libero-pro"]
