# SPDX-License-Identifier: Apache-2.0
"""The RLinf path against a fake of its API; tests/upstream asks the real one."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fast_wam_files import checkpoint
from fast_wam_parts import INSTRUCTION, libero_observation
from fast_wam_parts import recipe as planned

from rpent_box.backends.fast_wam import BACKEND
from rpent_box.backends.fast_wam.adapter import RLINF_ADAPTERS
from rpent_box.backends.fast_wam.checkpoint import find_model_files
from rpent_box.backends.fast_wam.model import FastWam, describe
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.backends.fast_wam.recipe import read_recipe
from rpent_box.backends.fast_wam.rlinf import (
    RlinfPolicy,
    require_weights,
    rlinf_configuration,
)
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.errors import BadActions, BadCheckpoint, BadOption
from rpent_box.worker.backend import LoadContext, PredictionInput

STEPS = 8


class FakeRlinf:
    """What RLinf's policy promises, and what it was asked."""

    def __init__(self) -> None:
        self.policy_cfg = SimpleNamespace(action_horizon=32, num_action_chunks=STEPS, seed=None)
        self.asked: list[tuple[dict[str, Any], str, int]] = []
        self.actions = np.zeros((1, STEPS, 7), np.float32)

    def predict_action_batch(
        self, env_obs: dict[str, Any], mode: str = "train"
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self.asked.append((env_obs, mode, self.policy_cfg.seed))
        return self.actions, {}


def served(fake: FakeRlinf) -> FastWam[Any, Any]:
    policy = RlinfPolicy(fake)
    meta = describe(
        planned(),
        RLINF_ADAPTERS["libero"],
        checkpoint="fake",
        horizon=policy.action_horizon,
        steps=policy.execute_steps,
        more={},
    )
    return FastWam(policy, RLINF_ADAPTERS["libero"], policy.execute_steps, meta, seed=1)


def request(chunk: int = 0) -> PredictionInput:
    primary = np.zeros((256, 256, 3), np.uint8)
    primary[:, :10] = 255
    key = EpisodeKey(seed=7, suite="libero_goal", task=0, episode=0, chunk=chunk)
    return PredictionInput(observation=libero_observation(primary), session="a", episode=key)


def test_one_observation_goes_in_as_a_batch_of_one_and_its_actions_come_out_without_it() -> None:
    fake = FakeRlinf()
    fake.actions[0, :, 0] = np.arange(STEPS)
    model = served(fake)
    chunk = model.predict(request())
    check_actions(chunk, model.meta)
    assert chunk.actions[:, 0].tolist() == list(range(STEPS))
    ((seen, mode, _),) = fake.asked
    assert mode == "eval"
    assert seen["main_images"].shape == seen["wrist_images"].shape == (1, 256, 256, 3)
    assert seen["main_images"].dtype == np.uint8
    assert (seen["main_images"][0, :, -10:] == 255).all()
    assert seen["states"].shape == (1, 8)
    assert seen["states"].dtype == np.float32
    assert seen["task_descriptions"] == [INSTRUCTION]


def test_the_loaded_policys_own_chunk_is_advertised() -> None:
    meta = served(FakeRlinf()).meta
    assert (meta.action_horizon, meta.execute_steps) == (32, STEPS)


def test_each_chunks_noise_has_a_seed_of_its_own() -> None:
    fake = FakeRlinf()
    model = served(fake)
    for chunk in (0, 1, 0):
        model.predict(request(chunk))
    seeds = [seed for _, _, seed in fake.asked]
    assert seeds[0] == seeds[2] != seeds[1]


def test_double_actions_become_float32() -> None:
    fake = FakeRlinf()
    fake.actions = fake.actions.astype(np.float64)
    assert served(fake).predict(request()).actions.dtype == np.float32


@pytest.mark.parametrize("shape", [(2, STEPS, 7), (1, STEPS - 1, 7), (1, STEPS, 14), (7,)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    fake = FakeRlinf()
    fake.actions = np.zeros(shape, np.float32)
    with pytest.raises(BadActions, match="shape"):
        served(fake).predict(request())


def test_what_is_not_finite_is_refused() -> None:
    fake = FakeRlinf()
    fake.actions[0, 3, 2] = math.nan
    with pytest.raises(BadActions, match="step 3, column 2"):
        served(fake).predict(request())


def test_rlinf_is_handed_the_yaml_and_where_the_files_are(tmp_path: Path) -> None:
    config = tmp_path / "worker.yaml"
    config.write_text("num_action_chunks: 5\ntext_cfg_scale: 2.0\nfastwam: {overrides: [a.b=1]}\n")
    folder = checkpoint(tmp_path / "weights")
    options = FastWamOptions(config=str(config), integration="rlinf", seed=3)
    recipe = read_recipe(options, "libero")
    files = find_model_files(options, folder, recipe)
    given = rlinf_configuration(recipe, files, "/configs")
    assert given["model_path"] == str(folder / "libero_uncond.pt")
    assert given["dataset_stats_path"].endswith("libero_uncond_dataset_stats.json")
    assert (given["num_action_chunks"], given["seed"], given["text_cfg_scale"]) == (5, 3, 2.0)
    assert given["fastwam"] == {
        "config_dir": "/configs",
        "config_name": "sim_libero",
        "overrides": ["a.b=1", "model.redirect_common_files=false"],
    }


def test_weights_that_rlinf_would_leave_at_random_are_named(tmp_path: Path) -> None:
    recipe = planned()
    files = find_model_files(FastWamOptions(), checkpoint(tmp_path), recipe)
    require_weights(["mixtures.video.head"], files)
    with pytest.raises(BadCheckpoint, match=r"has no mixtures\.action\.head;"):
        require_weights(["mixtures.video.head", "mixtures.action.head"], files)


@pytest.mark.skipif(find_spec("rlinf") is not None, reason="RLinf is installed here")
def test_where_rlinf_is_not_installed_the_error_says_what_to_do(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    context = LoadContext(platform="libero", checkpoint=str(folder), threads=1, say=lambda _: None)
    with pytest.raises(BadOption, match="cannot be imported") as caught:
        BACKEND.load(FastWamOptions(integration="rlinf"), context)
    assert "--integration official" in caught.value.hint
