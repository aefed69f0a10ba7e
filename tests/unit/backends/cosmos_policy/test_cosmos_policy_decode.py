# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpent_box.backends.cosmos_policy.adapter.decode import (
    decode_future,
    decode_libero,
    decode_value,
    native_actions,
)
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.errors import BadActions


def raw(seed: int = 0):
    return np.random.default_rng(seed).uniform(-2, 2, (16, 7))


@given(st.integers(1, 16), st.integers(0, 2**16))
def test_the_executed_steps_are_a_prefix_in_float32(steps: int, seed: int) -> None:
    actions = decode_libero(raw(seed), CosmosPolicyOptions(execute_steps=steps))
    assert actions.shape == (steps, 7)
    assert actions.dtype == np.float32
    assert actions.flags.c_contiguous
    np.testing.assert_array_equal(actions, raw(seed)[:steps].astype(np.float32))


def test_neither_limits_nor_the_gripper_are_touched() -> None:
    output = np.tile([1.7, -1.7, 0, 0, 0, 0, 0.3], (16, 1))
    actions = decode_libero(output, CosmosPolicyOptions())
    np.testing.assert_array_equal(actions, output.astype(np.float32))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("step", [0, 15])
def test_a_step_that_would_not_be_executed_is_checked_too(bad: float, step: int) -> None:
    output = raw()
    output[step, 6] = bad
    with pytest.raises(BadActions, match=f"step {step}, column 6"):
        decode_libero(output, CosmosPolicyOptions(execute_steps=1))


def test_what_float32_cannot_hold_is_refused() -> None:
    output = raw()
    output[2, 3] = 1e300
    with pytest.raises(BadActions, match="float32"):
        decode_libero(output, CosmosPolicyOptions())


@pytest.mark.parametrize("shape", [(15, 7), (17, 7), (16, 14), (7,), (1, 16, 7)])
def test_another_chunk_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadActions, match="returned"):
        decode_libero(np.zeros(shape), CosmosPolicyOptions())


def test_sixteen_arrays_become_one() -> None:
    output = raw()
    np.testing.assert_array_equal(native_actions({"actions": list(output)}), output)


@pytest.mark.parametrize("actions", [None, [np.zeros(7), np.zeros(6)], ["a"], {}])
def test_an_answer_without_actions_is_refused(actions: object) -> None:
    with pytest.raises(BadActions):
        decode_libero(native_actions({"actions": actions}), CosmosPolicyOptions())


def test_futures_are_named_by_their_cameras() -> None:
    front, hand = np.full((224, 224, 3), 1, np.uint8), np.full((224, 224, 3), 2, np.uint8)
    answer = {"future_image_predictions": {"future_wrist_image": hand, "future_image": front}}
    future = decode_future(answer)
    np.testing.assert_array_equal(future["primary"], front)
    np.testing.assert_array_equal(future["wrist"], hand)


@pytest.mark.parametrize(
    "frame",
    [None, np.zeros((224, 224, 3), np.float32), np.zeros((224, 224), np.uint8), "frame"],
)
def test_a_future_that_is_no_image_is_refused(frame: object) -> None:
    answer = {"future_image_predictions": {"future_image": frame, "future_wrist_image": frame}}
    with pytest.raises(BadActions, match="future primary"):
        decode_future(answer)


def test_a_future_that_is_missing_is_refused() -> None:
    with pytest.raises(BadActions, match="future primary of None"):
        decode_future({})


@pytest.mark.parametrize("value", [math.nan, -0.01, 1.01, None, True, "1"])
def test_a_value_outside_of_zero_to_one_is_refused(value: object) -> None:
    with pytest.raises(BadActions, match="value"):
        decode_value({"value_prediction": value})


def test_a_value_is_passed_on() -> None:
    assert decode_value({"value_prediction": 0.75}) == 0.75
