# SPDX-License-Identifier: Apache-2.0
"""The adapters against inputs and outputs of FastWAM's own code."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from fast_wam_parts import recipe
from upstream_goldens import Case, golden_cases, shown_by_libero

from rpent_box.backends.fast_wam.adapter import ADAPTERS
from rpent_box.backends.fast_wam.adapter.decode import decode_libero, decode_robotwin
from rpent_box.backends.fast_wam.adapter.encode import encode_libero, encode_robotwin
from rpent_box.backends.fast_wam.adapter.rlinf import decode_rlinf, encode_rlinf
from rpent_box.backends.fast_wam.calibration import Calibration, read_calibration
from rpent_box.backends.fast_wam.layout import LIBERO, ROBOTWIN, Layout
from rpent_box.backends.fast_wam.normaliser import read_normaliser
from rpent_box.backends.rotations import axis_angle_of
from rpent_box.contracts.observation import Observation

PRECISIONS = {"torch.float32": "fp32", "torch.bfloat16": "bf16"}


def statistics_of(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, array in case.under("stats_").items():
        part, _, field = name.partition("_")
        found.setdefault(part, {"default": {}})["default"][field] = array.tolist()
    return found


def calibration_of(case: Case, platform: str, layout: Layout, **changed: Any) -> Calibration:
    statistics = statistics_of(case)
    # Some cases were made without a state; any will do, for it is not used then.
    length = 14 if platform == "robotwin" else 8
    statistics.setdefault(
        "state",
        {"default": {f"global_{n}": [1.0] * length for n in ("min", "q01", "mean", "std")}
         | {f"global_{n}": [2.0] * length for n in ("max", "q99")}},
    )  # fmt: skip
    return read_calibration(statistics, layout, recipe(platform, **changed), role=case.name)


def layout_of_case(case: Case, like: Layout) -> Layout:
    mode = case.facts["norm_mode"]
    if "camera_hw" not in case.facts:
        return Layout(**{**_fields(like), "state_mode": mode, "action_mode": mode})
    camera = tuple(case.facts["camera_hw"])
    return Layout(
        cameras=(camera, camera),
        video_size=tuple(case.facts["video_size"]),
        concat=like.concat,
        state_mode=mode,
        action_mode=mode,
    )


def _fields(layout: Layout) -> dict[str, Any]:
    return {name: getattr(layout, name) for name in layout.__struct_fields__}


def shown_by_robotwin(case: Case) -> Observation:
    return Observation(
        images={
            "head": case["raw_head"],
            "left_wrist": case["raw_left"],
            "right_wrist": case["raw_right"],
        },
        proprio={"joint_targets": case["raw_joint_vector"].astype(np.float32)},
        instruction=case.facts["task"],
    )


def pixels_of(image: np.ndarray) -> np.ndarray:
    return np.rint((image[0].astype(np.float64) + 1) * 127.5).astype(np.uint8)


def single(case: Case) -> bool:
    return "batch" not in case.facts


def test_axis_angles_are_fastwams() -> None:
    for case in golden_cases("fastwam_axis_angle"):
        np.testing.assert_allclose(
            axis_angle_of(case["quat_f64"]), case["out_fastwam_f64"], rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(
            axis_angle_of(case["quat_f32"]), case["out_fastwam_f32"], rtol=0, atol=5e-6
        )


@pytest.mark.parametrize(("part", "length"), [("action", 7), ("state", 8)])
def test_the_normaliser_is_fastwams_bit_for_bit(part: str, length: int) -> None:
    for case in golden_cases("fastwam_normalizer"):
        found = read_normaliser(
            statistics_of(case), part, "default", case.facts["mode"], length, role=case.name
        )
        np.testing.assert_array_equal(found.scale, case[f"scale_{part}"])
        np.testing.assert_array_equal(found.offset, case[f"offset_{part}"])
        forward = found.forward(case[f"forward_in_{part}"])
        np.testing.assert_array_equal(forward, case[f"forward_out_{part}"])
        backward = found.backward(case[f"backward_in_{part}"])
        np.testing.assert_array_equal(backward, case[f"backward_out_{part}"])
        assert forward.dtype == backward.dtype == np.float32


def test_what_libero_shows_becomes_the_picture_and_prompt_that_fastwam_is_given() -> None:
    for case in filter(single, golden_cases("fastwam_libero_input")):
        calibration = calibration_of(
            case,
            "libero",
            layout_of_case(case, LIBERO),
            precision=PRECISIONS[case.facts["model_dtype"]],
        )
        seen = encode_libero(shown_by_libero(case, np.float32, case.facts["task"]), calibration)
        assert seen.prompt == case.facts["prompt"]
        digest = hashlib.sha256(seen.image.astype("<f4").tobytes()).hexdigest()
        assert digest == case.facts["input_image_sha256_f32"], case.name
        if case.facts["model_dtype"] == "torch.float32":
            np.testing.assert_array_equal(pixels_of(seen.image), case["input_image_u8_chw"])
        if "input_image" in case:
            np.testing.assert_array_equal(seen.image, case["input_image"])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-5)])
def test_what_libero_measures_becomes_the_state_that_fastwam_is_given(
    dtype: Any, tolerance: float
) -> None:
    for case in filter(single, golden_cases("fastwam_libero_input")):
        calibration = calibration_of(case, "libero", layout_of_case(case, LIBERO))
        seen = encode_libero(shown_by_libero(case, dtype, case.facts["task"]), calibration)
        assert seen.proprio.dtype == np.float32
        np.testing.assert_allclose(seen.proprio, case["proprio"], rtol=0, atol=tolerance)


@pytest.mark.parametrize("binarize", [False, True])
def test_what_fastwam_answers_becomes_liberos_actions_bit_for_bit(binarize: bool) -> None:
    wanted = "action_binarize" if binarize else "action_no_binarize"
    for case in golden_cases("fastwam_libero_output"):
        calibration = calibration_of(
            case, "libero", layout_of_case(case, LIBERO), binarize_gripper=binarize
        )
        before = case["model_action"].copy()
        actions = decode_libero(case["model_action"], calibration)
        np.testing.assert_array_equal(actions, case[wanted])
        np.testing.assert_array_equal(case["model_action"], before)
        steps = case[f"rpent_action_first10_{'' if binarize else 'no_'}binarize"]
        np.testing.assert_array_equal(actions[:10], steps)


def test_what_robotwin_shows_becomes_what_fastwam_is_given() -> None:
    for case in golden_cases("fastwam_robotwin"):
        calibration = calibration_of(
            case,
            "robotwin",
            layout_of_case(case, ROBOTWIN),
            precision=PRECISIONS[case.facts["model_dtype"]],
        )
        seen = encode_robotwin(shown_by_robotwin(case), calibration)
        assert seen.prompt == case.facts["prompt"]
        digest = hashlib.sha256(seen.image.astype("<f4").tobytes()).hexdigest()
        assert digest == case.facts["input_image_sha256_f32"], case.name
        np.testing.assert_array_equal(seen.proprio, case["proprio"])


def test_what_fastwam_answers_becomes_robotwins_actions_bit_for_bit() -> None:
    for case in golden_cases("fastwam_robotwin"):
        calibration = calibration_of(case, "robotwin", layout_of_case(case, ROBOTWIN))
        actions = decode_robotwin(case["model_action"], calibration)
        np.testing.assert_array_equal(actions, case["actions"])


def test_rlinf_is_given_what_its_own_environment_would_give() -> None:
    batched = [case for case in golden_cases("fastwam_libero_input") if not single(case)]
    assert batched
    for case in batched:
        for row, task in enumerate(case.facts["task"]):
            shown = Observation(
                images={
                    # RLinf's frames are turned by 180 degrees; upright ones are their mirror.
                    "primary": np.ascontiguousarray(case["rlinf_main_images"][row][:, ::-1]),
                    "wrist": np.ascontiguousarray(case["rlinf_wrist_images"][row][:, ::-1]),
                },
                proprio={
                    "eef_position": case["rlinf_states"][row, :3],
                    "eef_quaternion_xyzw": np.array([0, 0, 0, 1], np.float32),
                    "gripper_qpos": case["rlinf_states"][row, 6:],
                },
                instruction=task,
            )
            seen = encode_rlinf(shown, 8)
            np.testing.assert_array_equal(
                seen.main_images, case["rlinf_main_images"][row : row + 1]
            )
            np.testing.assert_array_equal(
                seen.wrist_images, case["rlinf_wrist_images"][row : row + 1]
            )
            np.testing.assert_array_equal(seen.states[0, :3], case["rlinf_states"][row, :3])
            np.testing.assert_array_equal(seen.states[0, 6:], case["rlinf_states"][row, 6:])
            assert seen.task_descriptions == [task]


def test_rlinfs_actions_pass_unchanged_without_their_batch() -> None:
    for case in golden_cases("fastwam_libero_output"):
        answer = case["rlinf_action_first8_binarize"]
        np.testing.assert_array_equal(decode_rlinf(answer[np.newaxis], 8), answer)


def test_libero_pro_is_served_as_libero() -> None:
    assert ADAPTERS["libero-pro"] is ADAPTERS["libero"]
