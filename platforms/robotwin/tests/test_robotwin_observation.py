# SPDX-License-Identifier: Apache-2.0
"""RoboTwin's names and types in ours, also against recorded ones where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rpent_box_robotwin.observation import (
    CAMERA_ROLES,
    PROPRIO_SCHEMA,
    frame,
    observation_from,
    vector,
)

GOLDENS = Path(__file__).resolve().parents[4] / "shared" / "goldens"


def test_recorded_observations_get_the_recorded_names_and_values() -> None:
    name = GOLDENS / "physical_observation_robotwin"
    if not name.with_suffix(".npz").is_file():
        pytest.skip(f"there are no recorded observations in {GOLDENS}")
    cases = json.loads(name.with_suffix(".json").read_text(encoding="utf-8"))["cases"]
    assert cases
    with np.load(name.with_suffix(".npz")) as arrays:
        for case in cases:
            prefix = case["case"]
            views = {role: arrays[f"{prefix}/raw/views/{role}"] for role in case["images"]}
            raw = {
                key: arrays[f"{prefix}/raw/robot_state/{key}"] for key in case["robot_state_keys"]
            }
            seen = observation_from(views, raw, case["instruction"])
            assert seen.instruction == case["instruction"]
            assert sorted(seen.proprio) == sorted(case["state"])
            for role in case["images"]:
                assert seen.images[role] is views[role]
                np.testing.assert_array_equal(seen.images[role], arrays[f"{prefix}/images/{role}"])
            for key, values in seen.proprio.items():
                wanted = arrays[f"{prefix}/state/{key}"].astype(np.float32)
                np.testing.assert_array_equal(values, wanted)
                assert values.shape == (PROPRIO_SCHEMA[key],)


def test_what_we_do_not_know_is_dropped() -> None:
    seen = observation_from({}, {"left_gripper": 0.25, "battery": 3.0}, "stack")
    assert set(seen.proprio) == {"left_gripper"}
    assert seen.proprio["left_gripper"].tolist() == [0.25]


def test_a_frame_is_our_own_and_rounds_towards_zero() -> None:
    drawn = np.zeros((2, 3, 4), dtype=np.float32)
    drawn[0, 0] = [0.999, 0.5, -0.1, 1.0]
    drawn[1, 2] = [1.5, 1.0, 0.0039, 0.0]
    image = frame(drawn)
    assert image.shape == (2, 3, 3)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    assert image.flags.owndata
    assert image[0, 0].tolist() == [254, 127, 0]
    assert image[1, 2].tolist() == [255, 255, 0]


def test_a_number_becomes_a_vector() -> None:
    assert vector(0.5).shape == (1,)
    assert vector([1, 2]).dtype == np.float32


def test_the_roles_are_the_ones_models_are_trained_with() -> None:
    assert CAMERA_ROLES == ("head", "left_wrist", "right_wrist")
