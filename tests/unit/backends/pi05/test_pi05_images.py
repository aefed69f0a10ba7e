# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upstream_goldens import golden_cases

from rpent_box.backends.pi05.adapter.encode import prepare_image
from rpent_box.backends.pi05.adapter.images import SIZE, resize_with_pad, to_uint8
from rpent_box.errors import BadObservation


def test_frames_equal_those_of_openpis_client_bit_for_bit() -> None:
    for case in golden_cases("pi05_image"):
        if "raw" in case:
            upright = np.ascontiguousarray(case["raw"][::-1])
            assert np.array_equal(prepare_image(upright, "primary"), case["out"]), case.name


def test_resizing_alone_equals_openpis_client_bit_for_bit() -> None:
    batched = [case for case in golden_cases("pi05_image") if "batch_in" in case]
    assert batched
    for case in batched:
        for image, wanted in zip(case["batch_in"], case["batch_out"], strict=True):
            assert np.array_equal(resize_with_pad(image, "primary"), wanted), case.name


def test_floats_are_cut_off_as_openpis_client_does() -> None:
    floats = [case for case in golden_cases("pi05_image") if "float_in" in case]
    assert floats
    for case in floats:
        assert np.array_equal(to_uint8(case["float_in"]), case["float_to_uint8"]), case.name


def test_bytes_are_not_converted() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert to_uint8(image) is image


def test_left_and_right_are_swapped_once_and_rows_are_not() -> None:
    upright = np.zeros((SIZE, SIZE, 3), np.uint8)
    upright[0, 0] = 200
    sent = prepare_image(upright, "primary")
    assert sent[0, SIZE - 1].tolist() == [200, 200, 200]
    assert sent.astype(int).sum() == 600
    assert sent.flags.c_contiguous


def test_a_frame_of_the_right_size_is_not_resampled() -> None:
    image = np.random.default_rng(1).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    assert np.array_equal(resize_with_pad(image, "wrist"), image)


def test_a_wide_frame_has_black_bars_above_and_below() -> None:
    padded = resize_with_pad(np.full((128, 256, 3), 255, np.uint8), "primary")
    assert (padded[56:168] == 255).all()
    assert (padded[:56] == 0).all()
    assert (padded[168:] == 0).all()


def test_a_frame_too_narrow_to_show_is_refused() -> None:
    with pytest.raises(BadObservation, match="camera wrist is 1x300"):
        resize_with_pad(np.zeros((1, 300, 3), np.uint8), "wrist")


@settings(max_examples=60, deadline=None)
@given(height=st.integers(1, 200), width=st.integers(1, 200), level=st.integers(1, 255))
def test_any_frame_is_shown_whole_centred_and_undistorted(
    height: int, width: int, level: int
) -> None:
    padded = resize_with_pad(np.full((height, width, 3), level, np.uint8), "primary")
    assert padded.shape == (SIZE, SIZE, 3)
    assert padded.dtype == np.uint8
    shown = padded[..., 0] == level
    rows, columns = np.flatnonzero(shown.any(1)), np.flatnonzero(shown.any(0))
    inner = (rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1)
    assert shown.sum() == inner[0] * inner[1]
    # Sizes are cut off, not rounded, as upstream does: up to one pixel of either side is lost.
    assert max(inner) in (SIZE - 1, SIZE)
    assert inner[0] == pytest.approx(height * SIZE / max(height, width), abs=1)
    assert inner[1] == pytest.approx(width * SIZE / max(height, width), abs=1)
    assert abs(rows[0] - (SIZE - 1 - rows[-1])) <= 1
    assert abs(columns[0] - (SIZE - 1 - columns[-1])) <= 1
    assert (padded[~shown] == 0).all()


@settings(max_examples=30, deadline=None)
@given(height=st.integers(8, 64), width=st.integers(8, 64), seed=st.integers(0, 1000))
def test_turning_the_raw_frame_is_swapping_the_upright_one(
    height: int, width: int, seed: int
) -> None:
    raw = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    turned = np.ascontiguousarray(raw[::-1, ::-1])
    upright = np.ascontiguousarray(raw[::-1])
    assert np.array_equal(prepare_image(upright, "primary"), resize_with_pad(turned, "primary"))
