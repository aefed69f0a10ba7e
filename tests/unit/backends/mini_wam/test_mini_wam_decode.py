# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from rpent_box.backends.mini_wam.adapter.decode import decode_future, decode_libero, decode_value
from rpent_box.errors import BadActions


def test_the_arm_is_clipped_and_the_gripper_is_a_sign() -> None:
    raw = np.array([[0.5, -0.5, 3.0, -3.0, 0.0, 1.0, 0.2], [0, 0, 0, 0, 0, 0, -0.2]], np.float32)
    actions = decode_libero(raw)
    assert actions[0].tolist() == [0.5, -0.5, 1.0, -1.0, 0.0, 1.0, 1.0]
    assert actions[1, 6] == -1.0
    assert actions.dtype == np.float32
    assert actions.flags.c_contiguous


def test_a_logit_of_zero_opens_the_gripper() -> None:
    assert decode_libero(np.zeros((1, 7), np.float32))[0, 6] == -1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", [0, 6])
def test_what_is_not_finite_is_refused_before_sign_and_clip_hide_it(
    bad: float, column: int
) -> None:
    raw = np.zeros((10, 7), np.float32)
    raw[3, column] = bad
    with pytest.raises(BadActions, match=f"step 3, column {column}"):
        decode_libero(raw)


def test_decoding_leaves_the_networks_output_alone() -> None:
    raw = np.full((2, 7), 2.0, np.float32)
    raw.flags.writeable = False
    decode_libero(raw)


def test_a_future_frame_is_rounded_and_clipped_to_uint8() -> None:
    frame = decode_future(np.array([[[-0.1, 0.5, 1.2]]], np.float32))
    assert frame.tolist() == [[[0, 128, 255]]]
    assert frame.dtype == np.uint8


def test_a_future_frame_that_is_not_finite_is_refused() -> None:
    with pytest.raises(BadActions, match="future frame"):
        decode_future(np.full((64, 64, 3), math.nan, np.float32))


def test_a_progress_stays_within_zero_and_one_and_must_be_finite() -> None:
    assert decode_value(1.5) == 1.0
    assert decode_value(-0.5) == 0.0
    with pytest.raises(BadActions, match="progress"):
        decode_value(math.nan)
