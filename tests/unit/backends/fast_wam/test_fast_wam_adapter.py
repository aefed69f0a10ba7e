# SPDX-License-Identifier: Apache-2.0
"""What must hold for any input, besides equality with FastWAM on the golden ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fast_wam_parts import calibration, libero_observation, robotwin_observation, statistics
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st
from msgspec.structs import replace

from rpent_box.backends.fast_wam.adapter.decode import decode_libero, decode_robotwin
from rpent_box.backends.fast_wam.adapter.encode import (
    cover,
    encode_libero,
    encode_robotwin,
    libero_state,
    mirror,
    prompt_of,
    stretch,
)
from rpent_box.backends.fast_wam.calibration import pixel_values
from rpent_box.backends.fast_wam.layout import LIBERO
from rpent_box.backends.fast_wam.normaliser import by_deviation, by_range, read_normaliser
from rpent_box.errors import BadCheckpoint

MODES = ("min/max", "q01/q99", "z-score", "-1/1", "0/1")


def finite(length: int, limit: float) -> st.SearchStrategy[np.ndarray]:
    numbers = st.floats(-limit, limit, width=32, allow_subnormal=False)
    return numpy_st.arrays(np.float32, length, elements=numbers)


def normaliser(mode: str, part: str = "action", *, seed: int = 0):  # type: ignore[no-untyped-def]
    length = 7 if part == "action" else 8
    return read_normaliser(statistics(seed=seed), part, "default", mode, length, role="test")


@pytest.mark.parametrize("mode", MODES)
@given(values=finite(7, 2.0), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_going_forward_and_back_gives_the_same_numbers(
    mode: str, values: np.ndarray, seed: int
) -> None:
    found = normaliser(mode, seed=seed)
    there = found.forward(values)
    inside = np.abs(there) < 5.0
    np.testing.assert_allclose(found.backward(there)[inside], values[inside], rtol=0, atol=2e-5)


@pytest.mark.parametrize("mode", MODES)
@given(values=finite(7, 1e6))
@settings(deadline=None, max_examples=40)
def test_what_is_out_of_range_is_limited_on_the_way_in_and_not_on_the_way_out(
    mode: str, values: np.ndarray
) -> None:
    found = normaliser(mode)
    assert np.abs(found.forward(values)).max() <= 5.0
    outside = found.backward(np.full(7, 40.0, np.float32))
    np.testing.assert_allclose(
        outside, (40.0 - found.offset.astype(np.float64)) / found.scale, rtol=1e-5
    )


@pytest.mark.parametrize("width", [0.0, 9e-5])
def test_a_column_that_hardly_moves_is_shifted_and_not_stretched(width: float) -> None:
    low = np.array([0.25], np.float32)
    found = by_range(low, low + np.float32(width))
    assert found.scale.tolist() == [1.0]
    assert found.forward(np.array([0.25], np.float32)).tolist() == [0.0]
    assert found.backward(np.array([0.5], np.float32)).tolist() == [0.75]


def test_a_deviation_of_zero_neither_divides_by_zero_nor_escapes() -> None:
    found = by_deviation(np.array([1.0], np.float32), np.array([0.0], np.float32))
    assert np.isfinite(found.scale).all()
    assert found.forward(np.array([1.0], np.float32)).tolist() == [0.0]
    assert found.forward(np.array([2.0], np.float32)).tolist() == [5.0]


def test_a_deviation_below_zero_is_refused() -> None:
    values = statistics()
    values["state"]["default"]["global_std"][3] = -0.1
    with pytest.raises(BadCheckpoint, match="below zero"):
        read_normaliser(values, "state", "default", "z-score", 8, role="test")


@pytest.mark.parametrize("binarize", [False, True])
@given(gripper=st.floats(-3, 3, width=32))
@settings(deadline=None, max_examples=60)
def test_the_gripper_opens_for_one_and_closes_for_zero(binarize: bool, gripper: float) -> None:
    shared = calibration(binarize_gripper=binarize)
    wanted = np.zeros((32, 7), np.float32)
    wanted[:, 6] = gripper
    normalised = wanted * shared.action.scale + shared.action.offset
    meant = shared.action.backward(normalised)[0, 6]
    found = decode_libero(normalised, shared)[0, 6]
    exact = -(np.float32(meant) * 2 - 1)
    assert found == (np.sign(exact) if binarize else exact)
    if binarize and abs(gripper - 0.5) > 1e-3:
        assert found == (-1.0 if gripper > 0.5 else 1.0)


@given(values=finite(14, 3.0))
@settings(deadline=None, max_examples=40)
def test_robotwins_actions_are_the_inverse_of_their_normalisation(values: np.ndarray) -> None:
    shared = calibration("robotwin")
    there = values * shared.action.scale + shared.action.offset
    actions = decode_robotwin(np.tile(there, (32, 1)), shared)
    np.testing.assert_allclose(actions, np.tile(values, (32, 1)), rtol=0, atol=1e-5)


def test_decoding_leaves_the_models_output_alone() -> None:
    output = np.ones((32, 7), np.float32)
    output.flags.writeable = False
    decode_libero(output, calibration())


def test_a_double_output_is_taken_as_float32() -> None:
    output = np.random.default_rng(0).standard_normal((32, 7))
    single = decode_libero(output.astype(np.float32), calibration())
    np.testing.assert_array_equal(decode_libero(output, calibration()), single)


@given(
    axis=finite(3, 1.0).filter(lambda axis: float(np.linalg.norm(axis)) > 0.1),
    # Nearer to a whole turn, float32 no longer holds the length of the axis.
    angle=st.floats(0.01, 2 * math.pi - 0.1),
)
@settings(deadline=None)
def test_a_turn_of_more_than_half_is_kept_as_one(axis: np.ndarray, angle: float) -> None:
    axis = axis / np.linalg.norm(axis)
    quaternion = np.append(axis * math.sin(angle / 2), math.cos(angle / 2)).astype(np.float32)
    proprio = {**libero_observation().proprio, "eef_quaternion_xyzw": quaternion}
    state = libero_state(proprio)
    np.testing.assert_allclose(state[3:6], axis * angle, rtol=0, atol=2e-3)


@pytest.mark.parametrize("w", [1.0, -1.0, 1.0000001, -1.0000001])
def test_no_turn_is_a_vector_of_zeros(w: float) -> None:
    quaternion = np.array([0, 0, 0, w], np.float32)
    state = libero_state({**libero_observation().proprio, "eef_quaternion_xyzw": quaternion})
    assert state[3:6].tolist() == [0.0, 0.0, 0.0]


def test_the_state_is_position_rotation_and_fingers() -> None:
    state = libero_state(libero_observation().proprio)
    assert state.dtype == np.float32
    np.testing.assert_array_equal(state[:3], np.array([0.1, -0.2, 1.0], np.float32))
    np.testing.assert_array_equal(state[6:], np.array([0.04, -0.04], np.float32))


def test_liberos_frames_are_mirrored_and_the_wrist_is_on_the_right() -> None:
    primary = np.zeros((256, 256, 3), np.uint8)
    primary[:, :128, 0] = 255  # red on the left
    wrist = np.zeros((256, 256, 3), np.uint8)
    wrist[:128, :, 1] = 255  # green above
    picture = encode_libero(libero_observation(primary, wrist), calibration()).image[0]
    assert picture.shape == (3, 224, 448)
    assert picture[0, 100, 50] == -1.0
    assert picture[0, 100, 200] == 1.0
    assert picture[1, 50, 300] == 1.0
    assert picture[1, 200, 300] == -1.0


def test_vertical_layouts_put_the_wrist_below() -> None:
    wrist = np.full((64, 64, 3), 255, np.uint8)
    layout = replace(LIBERO, cameras=((32, 32), (32, 32)), video_size=(64, 32), concat="vertical")
    seen = encode_libero(libero_observation(wrist=wrist), calibration(layout=layout))
    assert seen.image.shape == (1, 3, 64, 32)
    assert (seen.image[0, :, :32] == -1.0).all()
    assert (seen.image[0, :, 32:] == 1.0).all()


def test_robotwins_head_is_above_its_wrists_and_nothing_is_mirrored() -> None:
    head, left, right = (np.zeros((240, 320, 3), np.uint8) for _ in range(3))
    head[:, :160, 0] = 255
    left[:, :, 1] = 255
    right[:, :, 2] = 255
    picture = encode_robotwin(
        robotwin_observation(head, left, right), calibration("robotwin")
    ).image[0]
    assert picture.shape == (3, 384, 320)
    assert (picture[0, 10, 10], picture[0, 10, 310]) == (1.0, -1.0)
    assert (picture[1, 300, 10], picture[1, 300, 310]) == (1.0, -1.0)
    assert (picture[2, 300, 10], picture[2, 300, 310]) == (-1.0, 1.0)


@given(height=st.integers(8, 300), width=st.integers(8, 300))
@settings(deadline=None, max_examples=60)
def test_any_frame_covers_its_place_with_its_middle(height: int, width: int) -> None:
    frame = np.zeros((height, width, 3), np.uint8)
    frame[:, :, 0] = 200
    found = cover(frame, (32, 32))
    assert found.shape == (32, 32, 3)
    assert (found[:, :, 0] == 200).all()


def test_a_wide_frame_loses_its_sides_and_a_tall_one_its_ends() -> None:
    wide = np.zeros((64, 192, 3), np.uint8)
    wide[:, 64:128] = 255
    assert (cover(wide, (32, 32))[:, 2:-2] == 255).all()
    tall = np.ascontiguousarray(wide.transpose(1, 0, 2))
    assert (cover(tall, (32, 32))[2:-2] == 255).all()


@given(height=st.integers(2, 200), width=st.integers(2, 200))
@settings(deadline=None, max_examples=30)
def test_stretching_gives_the_size_that_was_asked_for(height: int, width: int) -> None:
    assert stretch(np.zeros((height, width, 3), np.uint8), (128, 160)).shape == (128, 160, 3)


def test_mirroring_twice_changes_nothing_and_gives_whole_frames() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert mirror(frame).flags.c_contiguous
    np.testing.assert_array_equal(mirror(mirror(frame)), frame)
    np.testing.assert_array_equal(mirror(frame)[:, 0], frame[:, -1])


def test_encoding_does_not_write_into_the_observation() -> None:
    shown = libero_observation()
    for array in (*shown.images.values(), *shown.proprio.values()):
        array.flags.writeable = False
    encode_libero(shown, calibration())


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_pixels_run_from_minus_one_to_one(precision: str) -> None:
    values = pixel_values(precision)  # type: ignore[arg-type]
    assert values.dtype == np.float32
    assert (values[0], values[255]) == (-1.0, 1.0)
    assert (np.diff(values) >= 0).all()


def test_bfloat16_is_rounded_to_eight_bits_with_ties_to_even() -> None:
    upper = pixel_values("bf16").view(np.uint32)
    assert (upper & 0xFFFF == 0).all()
    exact = pixel_values("fp32")
    assert np.abs(pixel_values("bf16") - exact).max() < 2**-7


def test_the_instruction_is_put_into_the_sentence_as_it_is() -> None:
    assert prompt_of("  stack {the} bowls ").endswith("instruction:   stack {the} bowls ")
