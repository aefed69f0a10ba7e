# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream_goldens import golden_cases

from rpent_box.backends.pi05.adapter.decode import decode_libero
from rpent_box.errors import BadActions


def test_openpis_actions_come_out_as_they_are_in_float32() -> None:
    for case in golden_cases("pi05_libero"):
        decoded = decode_libero(case["actions"], None)
        assert decoded.dtype == np.float32
        assert decoded.flags.c_contiguous
        assert np.array_equal(decoded, case["actions"].astype(np.float32)), case.name


def test_rlinfs_own_path_gives_the_same_first_steps() -> None:
    compared = [case for case in golden_cases("pi05_libero") if "rlinf_actions" in case]
    assert compared
    for case in compared:
        decoded = decode_libero(case["actions"], None)[:5]
        np.testing.assert_allclose(decoded, case["rlinf_actions"], rtol=1e-6, atol=1e-6)


@given(st.floats(-1e6, 1e6))
def test_nothing_is_limited(value: float) -> None:
    decoded = decode_libero(np.full((10, 7), value), None)
    assert (decoded == np.float32(value)).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    output = np.zeros((10, 7))
    output[9, 6] = value
    with pytest.raises(BadActions, match="step 9, column 6"):
        decode_libero(output, None)


def test_what_float32_cannot_hold_is_refused() -> None:
    with pytest.raises(BadActions, match="float32"):
        decode_libero(np.full((10, 7), 1e39), None)


@pytest.mark.parametrize("shape", [(10, 6), (10, 8), (0, 7), (7,), (1, 10, 7)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadActions, match="shape"):
        decode_libero(np.zeros(shape), None)


def test_integers_are_refused() -> None:
    with pytest.raises(BadActions, match="int64"):
        decode_libero(np.zeros((10, 7), np.int64), None)
