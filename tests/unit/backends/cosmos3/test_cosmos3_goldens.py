# SPDX-License-Identifier: Apache-2.0
"""The adapter against what upstream's own code made of the same inputs."""

from __future__ import annotations

import numpy as np
import pytest
from upstream_goldens import Case, golden_cases, golden_json

from rpent_box.backends.cosmos3.adapter.compose import compose
from rpent_box.backends.cosmos3.adapter.decode import decode_libero, libero_gripper, of_length
from rpent_box.backends.cosmos3.adapter.encode import describe_views, encode_libero
from rpent_box.backends.cosmos3.adapter.recipe import Recipe
from rpent_box.backends.cosmos3.adapter.rotation import rotation_vectors
from rpent_box.backends.cosmos3.statistics import Denormaliser
from rpent_box.contracts.observation import Observation
from rpent_box.errors import BadActions

NOTHING = Denormaliser(method="none", low=np.zeros(10, "f4"), high=np.zeros(10, "f4"))
ENDS = {
    "quantile_rot": ("q01", "q99"),
    "quantile": ("q01", "q99"),
    "minmax": ("min", "max"),
    "meanstd": ("mean", "std"),
    "other": ("min", "max"),
}


def shown(frames: np.ndarray, facts: dict[str, object]) -> np.ndarray:
    """Return the frames as the case's container holds them: uint8 [N, H, W, 3]."""
    if facts["container"] == "float":
        frames = (frames.astype(np.float32) * np.float32(1.25) - np.float32(20)).clip(0, 255)
    return frames.astype(np.uint8)


def denormaliser_of(case: Case) -> Denormaliser:
    norm = case.facts["norm"]
    low, high = (case[f"stats_used_{end}"] for end in ENDS[norm])
    return Denormaliser(method="none" if norm == "other" else norm, low=low, high=high)


def same_rotations(found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare vectors, or, near pi, where a vector and its negative are one, rotations."""
    for one, other in zip(found.reshape(-1, 3), wanted.reshape(-1, 3), strict=True):
        if np.linalg.norm(other) > np.pi - 1e-2:
            np.testing.assert_allclose(matrix_of(one), matrix_of(other), atol=1e-3)
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def matrix_of(vector: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a rotation vector (Rodrigues), in float64."""
    vector = vector.astype(np.float64)
    angle = np.linalg.norm(vector)
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def test_pictures_are_upstreams_pixel_by_pixel() -> None:
    for case in golden_cases("cosmos3_request"):
        main, wrist = (shown(case[f"{role}_images"], case.facts) for role in ("main", "wrist"))
        for row, wanted in enumerate(case["composed"]):
            found = compose([main[row], wrist[row]], tuple(case.facts["target_wh"]))
            np.testing.assert_array_equal(found, wanted, err_msg=case.name)


def test_an_upright_observation_gives_the_picture_of_the_turned_frames() -> None:
    for case in golden_cases("cosmos3_request"):
        main, wrist = (shown(case[f"{role}_images"], case.facts) for role in ("main", "wrist"))
        observation = Observation(
            # What upstream calls its images are LIBERO's raw ones turned by 180 degrees; ours have
            # their rows turned and not their columns.
            images={
                "primary": np.ascontiguousarray(main[0][:, ::-1]),
                "wrist": np.ascontiguousarray(wrist[0][:, ::-1]),
            },
            proprio={},
            instruction=case.facts["tasks"][0],
        )
        recipe = Recipe(
            width_height=tuple(case.facts["target_wh"]), num_action_chunks=16, denormaliser=NOTHING
        )
        found = encode_libero(observation, recipe)
        np.testing.assert_array_equal(found.image, case["composed"][0], err_msg=case.name)
        assert found.prompt == case.facts["payload_without_images"]["input"]["prompt"][0]


def test_prompts_are_upstreams_word_by_word() -> None:
    rows = golden_json("cosmos3_prompt")
    assert rows
    for row in rows:
        assert describe_views(row["task"], row["n_cam"]) == row["prompt"]


def test_actions_are_upstreams() -> None:
    for case in golden_cases("cosmos3_action"):
        denormaliser = denormaliser_of(case)
        recipe = Recipe(width_height=(320, 192), num_action_chunks=16, denormaliser=denormaliser)
        values = case["values"].reshape(-1, *case["values"].shape[-2:])
        for row, environment in enumerate(values):
            undone = denormaliser.undo(environment[:, :10])
            np.testing.assert_array_equal(undone, case["denormalised"][row], err_msg=case.name)
            found = decode_libero(environment, recipe)
            wanted = case["libero_actions"][row]
            assert found.dtype == np.float32
            assert found.shape == (16, 7)
            np.testing.assert_allclose(found[:, :3], wanted[:, :3], rtol=0, atol=1e-6)
            same_rotations(found[:, 3:6], wanted[:, 3:6])
            np.testing.assert_array_equal(found[:, 6], wanted[:, 6])


def test_rotations_are_upstreams_and_what_upstream_refuses_is_refused() -> None:
    refused = 0
    for case in golden_cases("cosmos3_rot6d"):
        if "error" not in case.facts:
            same_rotations(rotation_vectors(case["rot6d"].reshape(-1, 6)), case["axisangle"])
            continue
        refused += 1
        values = np.zeros((1, 10), np.float32)
        values[0, 3:9] = case["rot6d"]
        recipe = Recipe(width_height=(320, 192), num_action_chunks=1, denormaliser=NOTHING)
        with pytest.raises(BadActions):
            decode_libero(values, recipe)
    assert refused


def test_grippers_are_upstreams() -> None:
    for case in golden_cases("cosmos3_gripper"):
        found = libero_gripper(case["in"][..., 6:])
        np.testing.assert_array_equal(found, case["cosmos3"][..., 6:], err_msg=case.name)
        assert found.dtype == case["cosmos3"].dtype


def test_what_is_missing_is_the_last_step_over_and_over() -> None:
    for case in golden_cases("cosmos3_action"):
        if case.facts["horizon"] < 16:
            raw = case["actions"][0][: case.facts["horizon"]]
            np.testing.assert_array_equal(of_length(raw, 16), case["actions"][0])
