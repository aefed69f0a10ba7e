# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from fast_wam_fake import fake_model
from fast_wam_parts import libero_observation, robotwin_observation

from rpent_box.backends.fast_wam import BACKEND
from rpent_box.contracts.checks import check_actions, check_observation
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.errors import BadActions, BadOption
from rpent_box.worker.backend import BatchingBackend, LoadContext, PredictionInput

OBSERVATIONS = {
    "libero": libero_observation,
    "libero-pro": libero_observation,
    "robotwin": robotwin_observation,
}


def asked(platform: str = "libero", **more: object) -> PredictionInput:
    return PredictionInput(observation=OBSERVATIONS[platform](), session="a", **more)  # type: ignore[arg-type]


def key(chunk: int = 0, seed: int = 7) -> EpisodeKey:
    return EpisodeKey(seed=seed, suite="libero_goal", task=2, episode=3, chunk=chunk)


@pytest.mark.parametrize("platform", BACKEND.platforms)
def test_a_chunk_is_what_the_meta_promises(platform: str) -> None:
    model, _ = fake_model(platform)
    check_observation(OBSERVATIONS[platform](), model.meta)
    chunk = model.predict(asked(platform, episode=key()))
    check_actions(chunk, model.meta)
    assert set(chunk.timings_s) == {"encode", "infer", "decode"}
    assert model.meta.control.action_space in BACKEND.action_spaces


def test_the_horizon_is_predicted_and_its_beginning_executed() -> None:
    model, policy = fake_model("libero", action_horizon=32, execute_steps=10)
    assert (model.meta.action_horizon, model.meta.execute_steps) == (32, 10)
    policy.answer = np.tile(np.linspace(0, 1, 32, dtype=np.float32)[:, None], (1, 7))
    actions = model.predict(asked()).actions
    assert actions.shape == (10, 7)
    assert (np.diff(actions[:, 0]) > 0).all()


def test_the_defaults_are_the_ones_that_the_readme_states() -> None:
    libero, robotwin = fake_model("libero")[0].meta, fake_model("robotwin")[0].meta
    assert (libero.action_horizon, libero.execute_steps) == (32, 10)
    assert (robotwin.action_horizon, robotwin.execute_steps) == (32, 24)
    assert libero.provenance["denoising_steps"] == "20"
    assert robotwin.provenance["denoising_steps"] == "10"
    assert libero.provenance["gripper"] == "binarised"


def test_noise_depends_on_the_moment_and_on_nothing_else() -> None:
    model, policy = fake_model()
    first = model.predict(asked(episode=key(0)))
    model.predict(asked(episode=key(1)))
    again = model.predict(asked(episode=key(0)))
    np.testing.assert_array_equal(first.actions, again.actions)
    seeds = [seed for _, seed in policy.asked]
    assert seeds[0] == seeds[2] != seeds[1]
    assert first.metadata["noise_seed"] == seeds[0]


def test_the_models_own_seed_changes_the_noise() -> None:
    one, first = fake_model(seed=1)
    other, second = fake_model(seed=2)
    one.predict(asked(episode=key()))
    other.predict(asked(episode=key()))
    assert first.asked[0][1] != second.asked[0][1]


def test_without_an_episode_the_seed_is_the_models_own() -> None:
    model, policy = fake_model(seed=1)
    model.predict(asked())
    assert policy.asked[0][1] == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 6), (31, 0)])
def test_what_is_not_finite_is_refused_even_behind_the_executed_steps(
    bad: float, place: tuple[int, int]
) -> None:
    model, policy = fake_model()
    policy.answer = np.zeros((32, 7), np.float32)
    policy.answer[place] = bad
    with pytest.raises(BadActions, match=f"step {place[0]}, column {place[1]}"):
        model.predict(asked())


@pytest.mark.parametrize("shape", [(31, 7), (32, 6), (32, 14), (1, 32, 7), (7,)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    model, policy = fake_model()
    policy.answer = np.zeros(shape, np.float32)
    with pytest.raises(BadActions, match="shape"):
        model.predict(asked())


def test_a_value_that_denormalising_makes_infinite_is_refused_before_its_sign_is_taken() -> None:
    model, policy = fake_model()
    policy.answer = np.full((32, 7), np.finfo(np.float32).max, np.float32)
    with pytest.raises(BadActions, match="do not fit"):
        model.predict(asked())


def test_options_are_refused() -> None:
    with pytest.raises(BadOption, match="temperature"):
        fake_model()[0].predict(asked(options={"temperature": 1.0}))


def test_it_neither_batches_nor_remembers() -> None:
    model, policy = fake_model()
    assert not isinstance(model, BatchingBackend)
    assert model.meta.max_batch == 1
    assert not model.meta.uses_sessions
    before = model.predict(asked(episode=key())).actions
    model.reset("a")
    model.drop("a")
    np.testing.assert_array_equal(model.predict(asked(episode=key())).actions, before)
    model.close()
    model.close()
    assert policy.closed == 2


def test_loading_without_weights_is_refused() -> None:
    context = LoadContext(platform="libero", checkpoint=None, threads=1, say=lambda _: None)
    with pytest.raises(BadOption, match="no built-in weights"):
        BACKEND.load(BACKEND.options(), context)
