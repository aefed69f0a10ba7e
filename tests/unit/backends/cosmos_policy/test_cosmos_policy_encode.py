# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpent_box.backends.cosmos_policy.adapter import ADAPTERS
from rpent_box.backends.cosmos_policy.adapter.encode import encode_libero, join_proprio
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.contracts.observation import Observation
from rpent_box.errors import BadObservation

OPTIONS = CosmosPolicyOptions()


def observed(primary: tuple[int, int] = (256, 256), wrist: tuple[int, int] = (256, 256)):
    rng = np.random.default_rng(7)
    return Observation(
        images={
            "primary": rng.integers(0, 256, (*primary, 3), np.uint8),
            "wrist": rng.integers(0, 256, (*wrist, 3), np.uint8),
        },
        proprio={
            "eef_position": np.array([0.1, 0.2, 0.3], np.float32),
            "eef_quaternion_xyzw": np.array([0.4, 0.5, 0.6, 0.7], np.float32),
            "gripper_qpos": np.array([0.04, -0.03], np.float32),
        },
        instruction="put the bowl on the plate",
    )


def test_upright_frames_go_in_as_they_are() -> None:
    shown = observed()
    native = encode_libero(shown, OPTIONS)
    np.testing.assert_array_equal(native["primary_image"], shown.images["primary"])
    np.testing.assert_array_equal(native["wrist_image"], shown.images["wrist"])


def test_nothing_else_goes_in() -> None:
    assert set(encode_libero(observed(), OPTIONS)) == {"primary_image", "wrist_image", "proprio"}


def test_proprio_is_gripper_then_position_then_quaternion() -> None:
    proprio = encode_libero(observed(), OPTIONS)["proprio"]
    wanted = np.array([0.04, -0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], np.float32)
    np.testing.assert_array_equal(proprio, wanted)
    assert proprio.dtype == np.float64


def test_the_order_does_not_come_from_the_observation() -> None:
    shown = observed().proprio
    backwards = dict(reversed(shown.items()))
    np.testing.assert_array_equal(join_proprio(backwards), join_proprio(shown))


@pytest.mark.parametrize(
    ("primary", "wrist"),
    [((240, 256), (240, 256)), ((256, 256), (128, 128)), ((256, 256), (256, 240))],
)
def test_frames_that_would_be_distorted_are_refused_with_their_sizes(primary, wrist) -> None:
    with pytest.raises(
        BadObservation, match=rf"primary {primary[0]}x{primary[1]}, wrist {wrist[0]}"
    ):
        encode_libero(observed(primary, wrist), OPTIONS)


@given(st.integers(1, 400))
def test_square_frames_of_any_one_size_are_taken(size: int) -> None:
    native = encode_libero(observed((size, size), (size, size)), OPTIONS)
    assert native["primary_image"].shape == native["wrist_image"].shape == (size, size, 3)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=9, max_size=9))
def test_every_number_arrives_exactly_once(numbers: list[float]) -> None:
    vector = np.array(numbers, np.float32)
    proprio = {
        "gripper_qpos": vector[:2],
        "eef_position": vector[2:5],
        "eef_quaternion_xyzw": vector[5:],
    }
    np.testing.assert_array_equal(join_proprio(proprio), vector.astype(np.float64))


def test_libero_pro_is_the_same_robot() -> None:
    assert ADAPTERS["libero-pro"] == ADAPTERS["libero"]
    assert ADAPTERS["libero"].camera_roles == ("primary", "wrist")
    assert sum(ADAPTERS["libero"].proprio_schema.values()) == 9
