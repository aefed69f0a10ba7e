# SPDX-License-Identifier: Apache-2.0
"""The adapter against what Cosmos Policy's own code was given and gave, on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
from cosmos_policy_fake import FakeGetAction, make_backend, scaled
from cosmos_policy_files import write_statistics
from upstream_goldens import Case, golden_cases, shown_by_libero

from rpent_box.backends.cosmos_policy.checkpoint import Statistics, read_statistics
from rpent_box.errors import BadCheckpoint
from rpent_box.worker.backend import PredictionInput

NAME = "cosmos_policy_libero"
INSTRUCTION = "put the bowl on the plate"


def numbers(case: Case) -> Statistics:
    return Statistics(**case.under("stats_"))


def played(case: Case):
    """One prediction, with the case's own network output; (what went in, what came out)."""
    get_action = FakeGetAction()
    get_action.network_says = case["model_action_normalised"]
    backend = make_backend(get_action, numbers=numbers(case))
    chunk = backend.predict(
        PredictionInput(
            observation=shown_by_libero(case, np.float32, INSTRUCTION), session="golden"
        )
    )
    return get_action.asked[0], chunk


def test_the_proprio_is_the_one_that_upstream_prepares() -> None:
    for case in golden_cases(NAME):
        given, _ = played(case)
        np.testing.assert_allclose(given["obs"]["proprio"], case["obs_proprio"], rtol=0, atol=1e-6)


def test_the_frames_are_the_raw_ones_with_their_rows_reversed() -> None:
    for case in golden_cases(NAME):
        given, _ = played(case)
        raw = {
            "primary_image": "raw_agentview_image",
            "wrist_image": "raw_robot0_eye_in_hand_image",
        }
        for name, stored in raw.items():
            np.testing.assert_array_equal(given["obs"][name], np.flipud(case[stored]))


def test_scaling_that_proprio_gives_upstreams_numbers() -> None:
    for case in golden_cases(NAME):
        given, _ = played(case)
        # float32 measurements where upstream had float64; the scaling multiplies their rounding.
        width = case["stats_proprio_max"] - case["stats_proprio_min"]
        sound = width > 0
        wanted = case["proprio_normalised"]
        error = np.abs(given["proprio"][sound] - wanted[sound])
        assert (error <= 1e-6 * 2 / width[sound]).all()
        assert not np.isfinite(wanted[~sound]).any()


def test_the_scaling_of_the_exact_proprio_is_exact() -> None:
    for case in golden_cases(NAME):
        got = scaled(case["obs_proprio"], case.under("stats_"))
        np.testing.assert_allclose(got, case["proprio_normalised"], rtol=0, atol=1e-12)


def test_the_actions_are_upstreams_in_float32() -> None:
    for case in golden_cases(NAME):
        _, chunk = played(case)
        np.testing.assert_array_equal(chunk.actions, case["actions"].astype(np.float32))


def test_the_sampler_is_asked_as_the_cases_were() -> None:
    for case in golden_cases(NAME):
        given, _ = played(case)
        wanted = case.facts["generate_kwargs"]
        assert (given["seed"], given["steps"]) == (wanted["seed"], wanted["num_steps"])
        assert given["cfg"].use_variance_scale == wanted["use_variance_scale"]


def test_the_recipe_is_the_one_that_was_published() -> None:
    published = [
        case
        for case in golden_cases(NAME)
        if case.facts["use_jpeg_compression"] and case.facts["trained_with_image_aug"]
    ]
    given, _ = played(published[0])
    assert given["cfg"].use_jpeg_compression
    assert given["cfg"].trained_with_image_aug
    assert given["cfg"].suite == "libero"


def test_statistics_that_upstream_turns_into_inf_and_nan_are_refused(tmp_path) -> None:
    flat = [case for case in golden_cases(NAME) if case.facts["zero_range_proprio_dims"]]
    assert flat, "no case has a range of zero"
    for case in flat:
        path = tmp_path / "statistics.json"
        write_statistics(path, **{k: v.tolist() for k, v in case.under("stats_").items()})
        column = case.facts["zero_range_proprio_dims"][0]
        with pytest.raises(BadCheckpoint, match=f"column {column}: scaling would divide by zero"):
            read_statistics(path)


def test_all_other_statistics_are_read_exactly(tmp_path) -> None:
    for case in golden_cases(NAME):
        if case.facts["zero_range_proprio_dims"] or case.facts["zero_range_action_dims"]:
            continue
        path = tmp_path / "statistics.json"
        write_statistics(path, **{k: v.tolist() for k, v in case.under("stats_").items()})
        read = read_statistics(path)
        for name, stored in case.under("stats_").items():
            np.testing.assert_array_equal(getattr(read, name), stored)
