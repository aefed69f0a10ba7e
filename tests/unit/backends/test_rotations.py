# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from upstream_goldens import golden_cases

from rpent_box.backends.rotations import axis_angle_of


def test_axis_angles_equal_those_of_the_models_own_code() -> None:
    for case in golden_cases("fastwam_axis_angle"):
        np.testing.assert_allclose(
            axis_angle_of(case["quat_f64"]), case["out_fastwam_f64"], rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(
            axis_angle_of(case["quat_f32"]), case["out_fastwam_f32"], rtol=0, atol=5e-6
        )


def test_a_negative_w_gives_an_angle_above_pi() -> None:
    half = math.radians(200.0) / 2
    turned = axis_angle_of(np.array([0.0, 0.0, math.sin(half), math.cos(half)]))
    np.testing.assert_allclose(turned, [0.0, 0.0, math.radians(200.0)], atol=1e-12)


def test_no_rotation_is_zeros_of_the_same_dtype() -> None:
    for dtype in (np.float32, np.float64):
        found = axis_angle_of(np.array([0, 0, 0, 1], dtype))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.zeros(3))


def test_a_w_beyond_one_is_limited_and_the_input_left_alone() -> None:
    given = np.array([0.1, 0.0, 0.0, 1.5])
    np.testing.assert_array_equal(axis_angle_of(given), np.zeros(3))
    assert given[3] == pytest.approx(1.5)
