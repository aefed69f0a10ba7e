# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect as python_inspect
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from cosmos_policy_fake import KNOWN, FakeGetAction, make_backend
from cosmos_policy_files import make_checkpoint
from msgspec.structs import replace

from rpent_box.backends.cosmos_policy import BACKEND
from rpent_box.backends.cosmos_policy.model import load
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.backends.cosmos_policy.upstream import (
    GetAction,
    _explained,
    _prepare_environment,
    _require_gpu,
    _require_libero,
)
from rpent_box.backends.noise import noise_seed
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.errors import (
    BadActions,
    BadCheckpoint,
    BadObservation,
    BadOption,
    EnvironmentMissing,
)
from rpent_box.options import parse_options, path_fields
from rpent_box.worker.backend import InstructedBackend, LoadContext, PredictionInput
from rpent_box.worker.warm_up import blank_observation, warm_up

VARIABLES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "COSMOS_SMOKE",
    "COSMOS_INTERNAL",
    "DETERMINISTIC",
    "IMAGINAIRE_OUTPUT_ROOT",
)
KEY = EpisodeKey(seed=3, suite="libero_goal", task=4, episode=5, chunk=6)


def observation(instruction: str = KNOWN[0], seed: int = 0) -> Observation:
    rng = np.random.default_rng(seed)
    return Observation(
        images={role: rng.integers(0, 256, (64, 64, 3), np.uint8) for role in ("primary", "wrist")},
        proprio={
            "eef_position": rng.uniform(-1, 1, 3).astype(np.float32),
            "eef_quaternion_xyzw": np.array([0, 0, 0, 1], np.float32),
            "gripper_qpos": rng.uniform(-1, 1, 2).astype(np.float32),
        },
        instruction=instruction,
    )


def request(**more) -> PredictionInput:
    return PredictionInput(
        observation=more.pop("observation", observation()), session="a", episode=KEY, **more
    )


def context(checkpoint: str | None, **more) -> LoadContext:
    return LoadContext(
        platform=more.pop("platform", "libero"),
        checkpoint=checkpoint,
        threads=1,
        say=lambda _: None,
        **more,
    )


@pytest.mark.parametrize("platform", BACKEND.platforms)
@pytest.mark.parametrize("future", [False, True])
def test_a_prediction_is_what_the_meta_promises(platform: str, future: bool) -> None:
    options = CosmosPolicyOptions(predict_future=future, execute_steps=10)
    backend = make_backend(FakeGetAction(), platform=platform, options=options)
    chunk = backend.predict(request())
    check_actions(chunk, backend.meta)
    assert chunk.actions.shape == (10, 7)
    assert backend.meta.returns_future_observation is future
    assert backend.meta.returns_value is future
    assert (chunk.future_observation is not None) is future
    assert (chunk.value is not None) is future
    assert set(chunk.timings_s) == {"encode", "infer", "decode"}


def test_the_future_is_asked_for_only_with_the_option() -> None:
    get_action = FakeGetAction()
    make_backend(get_action).predict(request())
    make_backend(get_action, options=CosmosPolicyOptions(predict_future=True)).predict(request())
    assert [asked["future"] for asked in get_action.asked] == [False, True]


def test_the_noise_comes_from_the_seed_and_the_moment() -> None:
    get_action = FakeGetAction()
    backend = make_backend(get_action, options=CosmosPolicyOptions(seed=195))
    chunk = backend.predict(request())
    assert get_action.asked[0]["seed"] == noise_seed(195, KEY) == chunk.metadata["noise_seed"]


def test_without_an_episode_the_noise_is_upstreams_own() -> None:
    get_action = FakeGetAction()
    make_backend(get_action).predict(PredictionInput(observation=observation(), session="a"))
    assert get_action.asked[0]["seed"] == 1


def test_two_predictions_of_one_moment_are_equal_whatever_came_between() -> None:
    backend = make_backend(FakeGetAction())
    first = backend.predict(request())
    backend.predict(request(observation=observation(KNOWN[1], seed=9)))
    np.testing.assert_array_equal(first.actions, backend.predict(request()).actions)


def test_all_generators_are_seeded_before_each_prediction() -> None:
    get_action = FakeGetAction()
    backend = make_backend(get_action)
    backend.predict(request())
    backend.predict(request())
    assert get_action.seeds == [0, 0]


def test_a_cached_instruction_goes_in_as_its_embedding() -> None:
    get_action = FakeGetAction()
    chunk = make_backend(get_action).predict(request(observation=observation(KNOWN[2])))
    condition = get_action.asked[0]["condition"]
    assert condition.dtype == np.float32
    assert (condition == 2).all()
    assert chunk.metadata["instruction_cached"] is True


def test_a_new_instruction_goes_in_as_words_where_they_can_be_embedded() -> None:
    get_action = FakeGetAction()
    chunk = make_backend(get_action).predict(request(observation=observation("lift it")))
    assert get_action.asked[0]["condition"] == "lift it"
    assert chunk.metadata["instruction_cached"] is False


def test_cached_instructions_only_asks_the_model_nothing_else() -> None:
    get_action = FakeGetAction()
    options = CosmosPolicyOptions(cached_instructions_only=True)
    backend = make_backend(get_action, options=options)
    with pytest.raises(BadObservation, match="put the bowl on the stove"):
        backend.predict(request(observation=observation("put a bowl on the stove")))
    assert get_action.asked == []


def test_the_first_prediction_is_made_with_an_instruction_that_is_cached() -> None:
    get_action = FakeGetAction()
    options = CosmosPolicyOptions(cached_instructions_only=True)
    backend = make_backend(get_action, options=options)
    assert isinstance(backend, InstructedBackend)
    warm_up(backend, backend.meta)
    assert (get_action.asked[0]["condition"] == 0).all()
    with pytest.raises(BadObservation):
        backend.predict(request(observation=blank_observation(backend.meta)))


def test_unknown_options_of_a_request_are_refused() -> None:
    with pytest.raises(BadOption, match="temperature"):
        make_backend(FakeGetAction()).predict(request(options={"temperature": 1.0}))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_number_anywhere_in_the_chunk_is_refused(bad: float) -> None:
    get_action = FakeGetAction()
    get_action.network_says = np.zeros((16, 7), np.float32)
    get_action.network_says[15, 0] = bad
    with pytest.raises(BadActions, match="step 15"):
        make_backend(get_action, options=CosmosPolicyOptions(execute_steps=1)).predict(request())


def test_a_bad_value_is_refused() -> None:
    backend = make_backend(
        FakeGetAction(lambda answer: {**answer, "value_prediction": math.nan}),
        options=CosmosPolicyOptions(predict_future=True),
    )
    with pytest.raises(BadActions, match="value"):
        backend.predict(request())


def test_frames_that_are_read_only_are_left_alone() -> None:
    shown = observation()
    for image in shown.images.values():
        image.flags.writeable = False
    make_backend(FakeGetAction()).predict(request(observation=shown))


def test_closing_twice_is_harmless_and_predicting_afterwards_is_not() -> None:
    backend = make_backend(FakeGetAction())
    backend.close()
    backend.close()
    with pytest.raises(BadOption, match="closed"):
        backend.predict(request())


def test_it_batches_nothing_and_remembers_nothing() -> None:
    meta = make_backend(FakeGetAction()).meta
    assert (meta.max_batch, meta.uses_sessions) == (1, False)
    assert not hasattr(make_backend(FakeGetAction()), "predict_batch")


# --- options and loading


def test_the_flags_are_the_documented_ones() -> None:
    words = ["--cached-instructions-only", "--predict-future", "--denoising-steps=10", "--seed=195"]
    options = parse_options(CosmosPolicyOptions, words, program="test")
    assert options == CosmosPolicyOptions(
        cached_instructions_only=True, predict_future=True, denoising_steps=10, seed=195
    )


def test_the_defaults_are_five_steps_seed_one_and_all_sixteen_actions() -> None:
    options = CosmosPolicyOptions()
    assert (options.denoising_steps, options.seed, options.execute_steps) == (5, 1, 16)
    assert not options.predict_future
    assert not options.cached_instructions_only


@pytest.mark.parametrize(
    "word",
    ["--execute-steps=0", "--execute-steps=17", "--denoising-steps=0", "--seed=-1", "--seeds=1"],
)
def test_values_out_of_range_and_unknown_options_are_refused(word: str) -> None:
    with pytest.raises(BadOption):
        parse_options(CosmosPolicyOptions, [word], program="test")


def test_its_files_are_paths_that_a_container_is_shown() -> None:
    assert path_fields(CosmosPolicyOptions) == ["dataset_stats", "text_embeddings", "hf_home"]


def test_variables_stand_in_for_its_python_and_its_source_tree() -> None:
    assert BACKEND.env_fallbacks == {
        "COSMOS_POLICY_PYTHON": "python",
        "COSMOS_POLICY_ROOT": "root",
    }


def test_loading_checks_the_checkpoint_before_any_framework_is_imported(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c")
    (folder / "libero_dataset_statistics.json").unlink()
    with pytest.raises(BadCheckpoint, match="statistics"):
        load(CosmosPolicyOptions(), context(str(folder), device="cuda"))


def test_loading_without_a_checkpoint_or_for_another_platform_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="--checkpoint"):
        load(CosmosPolicyOptions(), context(None))
    with pytest.raises(BadOption, match="robotwin"):
        load(CosmosPolicyOptions(), context(str(tmp_path), platform="robotwin"))


def test_the_environment_keeps_downloads_off_and_determinism_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "before")
    _prepare_environment("/cache")
    assert os.environ["HF_HOME"] == "/cache"
    for name in ("HF_HUB_CACHE", "COSMOS_SMOKE", "COSMOS_INTERNAL"):
        assert name not in os.environ
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["DETERMINISTIC"] == "True"
    assert os.environ["IMAGINAIRE_OUTPUT_ROOT"] == "/cache/output"


def test_a_load_that_fails_leaves_no_cache_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in VARIABLES:
        monkeypatch.setenv(name, "before")
    folder = make_checkpoint(tmp_path / "c")
    with pytest.raises(EnvironmentMissing, match="torch") as caught:
        load(CosmosPolicyOptions(), context(str(folder), device="cuda"))
    assert "COSMOS_POLICY_PYTHON" in caught.value.hint
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_package_that_is_missing_in_its_environment_is_named_as_it_is() -> None:
    missing = ModuleNotFoundError("No module named 'megatron'", name="megatron")
    assert _explained(missing) is missing


def test_a_worker_without_a_gpu_is_refused() -> None:
    _require_gpu(context("c", device="cuda"), is_there=True)
    for device, there in (("cpu", True), ("cuda", False)):
        with pytest.raises(BadOption, match="GPU"):
            _require_gpu(context("c", device=device), is_there=there)


def test_a_network_set_up_for_another_robot_is_refused() -> None:
    _require_libero(7)
    with pytest.raises(BadOption, match="14 numbers"):
        _require_libero(14)


def test_the_fake_takes_what_the_real_function_is_given() -> None:
    fake = python_inspect.signature(FakeGetAction.__call__).parameters
    for name in python_inspect.signature(GetAction.__call__).parameters:
        assert name in fake, name


def test_a_changed_observation_changes_the_actions() -> None:
    backend = make_backend(FakeGetAction())
    plain = backend.predict(request()).actions
    shown = observation()
    moved = replace(
        shown, proprio={**shown.proprio, "eef_position": np.array([0.5, 0, 0], np.float32)}
    )
    assert not np.array_equal(plain, backend.predict(request(observation=moved)).actions)
