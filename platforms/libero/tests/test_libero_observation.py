# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rpent_box.contracts.checks import check_observation
from rpent_box.contracts.meta import ModelMeta
from rpent_box_libero import PLATFORM
from rpent_box_libero.observation import CAMERA_ROLES, PROPRIO_SCHEMA, observation_from

GOLDEN = (
    Path(__file__).parents[3].parent / "shared" / "goldens" / "physical_observation_libero.json"
)


def raw_observation() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    raw: dict[str, Any] = {
        f"{camera}_image": rng.integers(0, 256, (4, 6, 3), dtype=np.uint8)
        for camera in CAMERA_ROLES
    }
    for name, length in {
        "eef_pos": 3,
        "eef_quat": 4,
        "gripper_qpos": 2,
        "gripper_qvel": 2,
        "joint_pos": 7,
        "joint_vel": 7,
    }.items():
        raw[f"robot0_{name}"] = rng.normal(size=length)
    return raw


def test_frames_are_turned_upright_and_not_mirrored() -> None:
    raw = raw_observation()
    images = observation_from(raw, "").images
    for row in range(4):
        np.testing.assert_array_equal(images["primary"][row], raw["agentview_image"][3 - row])
        np.testing.assert_array_equal(
            images["wrist"][row], raw["robot0_eye_in_hand_image"][3 - row]
        )


def test_an_observation_is_what_the_platform_promises() -> None:
    observation = observation_from(raw_observation(), "push it")
    promised = ModelMeta(
        kind="vla",
        backend="toy",
        checkpoint="built-in",
        control=PLATFORM.meta.controls[0],
        camera_roles=PLATFORM.meta.camera_roles,
        proprio_schema=PLATFORM.meta.proprio_schema,
        action_horizon=1,
        execute_steps=1,
    )
    check_observation(observation, promised)
    assert observation.instruction == "push it"
    assert set(observation.proprio) == set(PROPRIO_SCHEMA)


def test_unknown_measurements_are_dropped_and_unknown_cameras_keep_their_name() -> None:
    raw = raw_observation()
    raw["frontview_image"] = np.zeros((4, 6, 3), dtype=np.uint8)
    raw["agentview_depth"] = np.zeros((4, 6, 1))
    raw["plate_1_pos"] = np.zeros(3)
    observation = observation_from(raw, "")
    assert set(observation.images) == {"primary", "wrist", "frontview"}
    assert set(observation.proprio) == set(PROPRIO_SCHEMA)


def test_a_camera_that_nobody_looks_through_is_not_shown() -> None:
    observation = observation_from(
        raw_observation(), "", is_used=lambda camera: camera == "robot0_eye_in_hand"
    )
    assert set(observation.images) == {"wrist"}
    assert set(observation.proprio) == set(PROPRIO_SCHEMA)


def test_frames_do_not_share_memory_with_the_simulator() -> None:
    raw = raw_observation()
    images = observation_from(raw, "").images
    before = images["primary"].copy()
    raw["agentview_image"][:] = 0
    np.testing.assert_array_equal(images["primary"], before)


def golden_cases() -> list[dict[str, Any]]:
    if not GOLDEN.is_file():
        return []
    cases: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    return cases


@pytest.mark.skipif(not GOLDEN.is_file(), reason=f"{GOLDEN.name} is not on this machine")
def test_recorded_observations_of_the_reference_are_matched_to_the_bit() -> None:
    cases = golden_cases()
    assert cases
    with np.load(GOLDEN.with_suffix(".npz"), allow_pickle=False) as arrays:
        for case in cases:
            check_golden_case(case, arrays)


def check_golden_case(case: dict[str, Any], arrays: Any) -> None:
    prefix = case["case"]
    raw = {
        key: arrays[f"{prefix}/raw/{key}"] for key in case["raw_keys"] if key != "task_descriptions"
    }
    observation = observation_from(raw, case["raw_task_descriptions"])
    assert observation.instruction == case["instruction"]
    assert list(observation.images) == case["images"]
    assert list(observation.proprio) == case["state"]
    for role, image in observation.images.items():
        wanted = arrays[f"{prefix}/images/{role}"]
        assert image.flags.c_contiguous == case["images_c_contiguous"][role]
        assert image.dtype == wanted.dtype
        assert image.tobytes() == wanted.tobytes()
    for name, vector in observation.proprio.items():
        wanted = np.asarray(arrays[f"{prefix}/state/{name}"], dtype=np.float32)
        assert vector.tobytes() == wanted.tobytes()
