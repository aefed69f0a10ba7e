# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pi05_fake import FakePolicy, make_backend

from rpent_box.backends.noise import noise_seed
from rpent_box.backends.pi05 import BACKEND
from rpent_box.backends.pi05.model import draw_noise, load
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.errors import BadActions, BadCheckpoint, BadObservation, BadOption
from rpent_box.options import parse_options
from rpent_box.worker.backend import LoadContext, PredictionInput

EPISODE = EpisodeKey(seed=7, suite="libero_goal", task=3, episode=2, chunk=4)


def observation(size: tuple[int, int] = (64, 48), instruction: str = "open it") -> Observation:
    frame = np.zeros((*size, 3), np.uint8)
    return Observation(
        images={"primary": frame, "wrist": frame},
        proprio={
            "eef_position": np.zeros(3, np.float32),
            "eef_quaternion_xyzw": np.array([0.0, 0.0, 0.0, 1.0], np.float32),
            "gripper_qpos": np.zeros(2, np.float32),
        },
        instruction=instruction,
    )


def ask(episode: EpisodeKey | None = EPISODE, **options: Any) -> PredictionInput:
    return PredictionInput(
        observation=observation(), session="one", episode=episode, options=options
    )


def test_a_chunk_is_what_the_meta_promises() -> None:
    backend = make_backend(FakePolicy())
    chunk = backend.predict(ask())
    check_actions(chunk, backend.meta)
    assert chunk.actions.shape == (5, 7)
    assert set(chunk.timings_s) == {"encode", "infer", "decode"}
    assert backend.meta.kind == "vla"
    assert (backend.meta.action_horizon, backend.meta.execute_steps) == (10, 5)
    assert backend.meta.provenance["config"] == "pi05_libero"


def test_a_compiling_model_is_allowed_more_time() -> None:
    assert make_backend(FakePolicy()).meta.prediction_timeout_s is None
    compiling = make_backend(FakePolicy(), options=Pi05Options(compile=True))
    assert compiling.meta.prediction_timeout_s == 1800.0


def test_the_chunk_is_the_beginning_of_what_openpi_returned() -> None:
    whole = np.arange(70, dtype=np.float64).reshape(10, 7) / 7
    backend = make_backend(FakePolicy(lambda _: whole), options=Pi05Options(execute_steps=3))
    assert np.array_equal(backend.predict(ask()).actions, whole[:3].astype(np.float32))


def test_noise_is_a_function_of_the_seed_and_the_moment() -> None:
    policy = FakePolicy()
    backend = make_backend(policy, options=Pi05Options(seed=11))
    chunk = backend.predict(ask())
    backend.predict(ask())
    backend.predict(ask(EpisodeKey(seed=7, suite="libero_goal", task=3, episode=2, chunk=5)))
    noises = [noise for _, noise, _ in policy.shown]
    assert noises[0].shape == (10, 32)
    assert noises[0].dtype == np.float32
    assert np.array_equal(noises[0], draw_noise(noise_seed(11, EPISODE), (10, 32)))
    assert np.array_equal(noises[0], noises[1])
    assert not np.array_equal(noises[0], noises[2])
    assert chunk.metadata == {"noise_seed": noise_seed(11, EPISODE)}


def test_noise_is_normal() -> None:
    noise = draw_noise(1, (1000, 32))
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 1) < 0.02


def test_a_prediction_may_choose_its_steps_and_its_seed() -> None:
    policy = FakePolicy()
    backend = make_backend(policy)
    backend.predict(ask())
    backend.predict(ask(num_steps=4, seed=9))
    backend.predict(ask())
    assert [steps for _, _, steps in policy.shown] == [10, 4, 10]
    assert np.array_equal(policy.shown[1][1], draw_noise(noise_seed(9, EPISODE), (10, 32)))
    assert np.array_equal(policy.shown[2][1], policy.shown[0][1])


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0},
        {"num_steps": 0},
        {"num_steps": 1001},
        {"num_steps": 2.0},
        {"num_steps": "10"},
        {"num_steps": True},
        {"seed": -1},
        {"seed": 2**31},
        {"seed": 0.5},
    ],
)
def test_other_prediction_options_are_refused_by_name(options: dict[str, Any]) -> None:
    policy = FakePolicy()
    with pytest.raises(BadOption, match=next(iter(options))):
        make_backend(policy).predict(ask(**options))
    assert policy.shown == []


def test_a_bad_number_behind_the_executed_steps_is_refused_all_the_same() -> None:
    def spoil(raw: NDArray[Any]) -> NDArray[Any]:
        raw[9, 6] = np.nan
        return raw

    with pytest.raises(BadActions, match="step 9, column 6"):
        make_backend(FakePolicy(spoil)).predict(ask())


@pytest.mark.parametrize("rows", [0, 4, 9])
def test_a_chunk_that_is_too_short_is_refused(rows: int) -> None:
    with pytest.raises(BadActions, match="at least 10 steps"):
        make_backend(FakePolicy(lambda raw: raw[:rows])).predict(ask())


def test_a_frame_that_cannot_be_scaled_is_refused_before_the_model_is_asked() -> None:
    policy = FakePolicy()
    request = PredictionInput(observation=observation((1, 300)), session="one")
    with pytest.raises(BadObservation, match="camera primary"):
        make_backend(policy).predict(request)
    assert policy.shown == []


def test_the_instruction_reaches_the_policy_unchanged() -> None:
    policy = FakePolicy()
    request = PredictionInput(observation=observation(instruction=" Pick_up\n"), session="one")
    make_backend(policy).predict(request)
    assert policy.shown[0][0].prompt == " Pick_up\n"


def test_a_closed_model_answers_nothing_and_may_be_closed_again() -> None:
    backend = make_backend(FakePolicy())
    backend.close()
    backend.close()
    with pytest.raises(RuntimeError, match="closed"):
        backend.predict(ask())


def test_loading_looks_at_the_files_before_it_imports_openpi(tmp_path: Path) -> None:
    phases: list[str] = []
    context = LoadContext(platform="libero", checkpoint=str(tmp_path), threads=1, say=phases.append)
    with pytest.raises(BadCheckpoint, match=r"no model\.safetensors"):
        load(Pi05Options(), context)
    assert phases == ["checking files"]


def test_loading_without_a_checkpoint_or_an_adapter_is_refused() -> None:
    def context(platform: str) -> LoadContext:
        return LoadContext(platform=platform, checkpoint=None, threads=1, say=lambda _: None)

    with pytest.raises(BadCheckpoint, match="no built-in weights"):
        load(Pi05Options(), context("libero"))
    with pytest.raises(BadOption, match="no adapter for the platform robotwin"):
        load(Pi05Options(), context("robotwin"))


def test_the_options_are_read_from_the_command_line() -> None:
    words = ["--execute-steps=10", "--num-steps=4", "--seed=3", "--compile"]
    assert parse_options(Pi05Options, words, program="pi05") == Pi05Options(
        execute_steps=10, num_steps=4, seed=3, compile=True
    )
    for wrong in ("--execute-steps=0", "--num-steps=0", "--seed=-1", "--config-name="):
        with pytest.raises(BadOption):
            parse_options(Pi05Options, [wrong], program="pi05")


def test_the_spec_is_known_without_a_framework() -> None:
    assert (BACKEND.kind, BACKEND.platforms) == ("vla", ("libero", "libero-pro"))
    imported = (
        "import sys; import rpent_box.backends.pi05.checkpoint, rpent_box.backends.pi05.model; "
        "print([name for name in ('torch', 'jax', 'openpi', 'transformers') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", imported], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
