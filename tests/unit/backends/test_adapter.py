# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpent_box.backends.adapter import adapter_for, require_output, to_actions
from rpent_box.errors import BadActions, BadOption


def test_the_adapter_of_a_platform_is_found_and_another_platform_is_refused() -> None:
    assert adapter_for({"libero": 1, "robotwin": 2}, "robotwin", backend="wander") == 2
    with pytest.raises(BadOption, match="wander has no adapter for the platform disc") as caught:
        adapter_for({"libero": 1, "robotwin": 2}, "disc", backend="wander")
    assert "libero, robotwin" in caught.value.hint


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_sound_output_passes_as_it_is(dtype: type) -> None:
    output = np.zeros((12, 7), dtype)
    assert require_output(output, (10, 7), backend="wander") is output


@pytest.mark.parametrize(
    "output",
    [
        np.zeros((10, 7), np.int64),
        np.zeros((10, 7), np.bool_),
        np.zeros((9, 7)),
        np.zeros((0, 7)),
        np.zeros((10, 6)),
        np.zeros((10, 8)),
        np.zeros(70),
        np.zeros((1, 10, 7)),
        np.array("text"),
    ],
    ids=lambda output: f"{output.dtype}{list(output.shape)}",
)
def test_an_output_of_another_kind_or_shape_is_refused(output: np.ndarray) -> None:
    with pytest.raises(BadActions, match="wander's model returned"):
        require_output(output, (10, 7), backend="wander")


@given(
    row=st.integers(0, 11),
    column=st.integers(0, 6),
    number=st.sampled_from([math.nan, math.inf, -math.inf]),
)
def test_a_value_that_is_not_finite_is_named_wherever_it_stands(
    row: int, column: int, number: float
) -> None:
    output = np.zeros((12, 7))
    output[row, column] = number
    with pytest.raises(BadActions, match=f"{number} in step {row}, column {column}"):
        require_output(output, (10, 7), backend="wander")


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_what_float32_holds_comes_out_unchanged(numbers: list[float]) -> None:
    actions = to_actions(np.array([numbers], np.float64), backend="wander")
    assert (actions.dtype, actions.flags.c_contiguous) == (np.float32, True)
    assert actions.tolist() == [numbers]


def test_actions_are_a_new_array_only_where_they_must_be() -> None:
    sound = np.zeros((3, 7), np.float32)
    assert to_actions(sound, backend="wander") is sound
    assert to_actions(np.zeros((7, 3), np.float32).T, backend="wander").flags.c_contiguous


@pytest.mark.parametrize("number", [1e39, -1e300, math.nan, math.inf])
def test_what_float32_does_not_hold_is_refused(number: float) -> None:
    with pytest.raises(BadActions, match="do not fit into float32"):
        to_actions(np.array([[0.0, number]]), backend="wander")
