# SPDX-License-Identifier: Apache-2.0
"""What stands around openpi, with stand-ins for it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pi05_fake import NOISE_SHAPE

from rpent_box.backends.pi05.adapter import LiberoInput
from rpent_box.backends.pi05.model import draw_noise
from rpent_box.backends.pi05.openpi_policy import (
    OpenpiPolicy,
    prepare,
    read_configs,
    require_fit,
    tokenizer_in_cache,
)
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.errors import BadOption
from rpent_box.worker.backend import Device, LoadContext


class UpstreamPolicy:
    """Has what is used of openpi's `Policy`."""

    def __init__(self, sample_kwargs: object) -> None:
        self._sample_kwargs = sample_kwargs
        self.asked: list[tuple[dict[str, Any], Any, object]] = []

    def infer(self, shown: dict[str, Any], *, noise: Any) -> dict[str, Any]:
        self.asked.append((shown, noise, self._sample_kwargs))
        return {"actions": np.ones((10, 7)), "policy_timing": {"infer_ms": 1.0}}


def context(device: Device) -> LoadContext:
    return LoadContext(
        platform="libero", checkpoint="x", threads=1, device=device, say=lambda _: None
    )


def model(kind: str = "pi05", action_dim: int = 32, action_horizon: int = 10) -> SimpleNamespace:
    return SimpleNamespace(
        model=SimpleNamespace(
            model_type=SimpleNamespace(value=kind),
            action_dim=action_dim,
            action_horizon=action_horizon,
        )
    )


def test_openpi_is_asked_as_its_libero_client_asks_it() -> None:
    upstream = UpstreamPolicy({})
    policy = OpenpiPolicy(upstream, NOISE_SHAPE)
    frame = np.zeros((224, 224, 3), np.uint8)
    shown = LiberoInput(image=frame, wrist_image=frame + 1, state=np.arange(8.0), prompt="open it")
    noise = draw_noise(0, NOISE_SHAPE)
    actions = policy.infer(shown, noise=noise, num_steps=4)
    assert actions.shape == (10, 7)
    (asked, given, options) = upstream.asked[0]
    assert set(asked) == {
        "observation/image",
        "observation/wrist_image",
        "observation/state",
        "prompt",
    }
    assert asked["observation/wrist_image"][0, 0, 0] == 1
    assert asked["prompt"] == "open it"
    assert given is noise
    assert options == {"num_steps": 4}


def test_an_openpi_that_keeps_its_options_elsewhere_is_noticed_when_it_is_loaded() -> None:
    with pytest.raises(TypeError, match="elsewhere"):
        OpenpiPolicy(UpstreamPolicy(None), NOISE_SHAPE)


def test_openpi_finds_a_copy_of_the_tokenizer_that_nobody_else_can_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENPI_DATA_HOME", "elsewhere")
    (tmp_path / "words.model").write_bytes(b"words")
    with tokenizer_in_cache(str(tmp_path / "words.model")):
        cache = Path(os.environ["OPENPI_DATA_HOME"])
        place = cache / "big_vision/paligemma_tokenizer.model"
        assert place.read_bytes() == b"words"
        assert not place.is_symlink()
        assert stat.S_IMODE(cache.parent.stat().st_mode) == 0o700
    assert not cache.parent.exists()


def test_configurations_are_read_from_the_users_file(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from __future__ import annotations\n"
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Config:\n"
        "    name: str\n"
        "CONFIGS = [Config('one'), Config('two')]\n"
    )
    assert {name: config.name for name, config in read_configs(str(own)).items()} == {
        "one": "one",
        "two": "two",
    }


def test_a_file_without_configurations_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("CONFIG = 1\n")
    with pytest.raises(BadOption, match="no list CONFIGS"):
        read_configs(str(own))
    with pytest.raises(BadOption, match="no Python file"):
        read_configs(str(tmp_path / "own.yaml"))


def test_a_configuration_must_be_of_this_model() -> None:
    assert require_fit(model(), Pi05Options()) == (10, 32)
    assert require_fit(model(action_horizon=50), Pi05Options(execute_steps=50)) == (50, 32)
    with pytest.raises(BadOption, match="configures a pi0 model"):
        require_fit(model("pi0"), Pi05Options())
    with pytest.raises(BadOption, match="24 action columns"):
        require_fit(model(action_dim=24), Pi05Options())
    with pytest.raises(BadOption, match="--execute-steps 5 is more"):
        require_fit(model(action_horizon=4), Pi05Options())


def test_jax_stays_off_the_gpu_and_the_sampler_is_compiled_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "")
    prepare(Pi05Options(), context("cuda"))
    assert (os.environ["JAX_PLATFORMS"], os.environ["TORCHDYNAMO_DISABLE"]) == ("cpu", "1")
    prepare(Pi05Options(compile=True), context("cuda"))
    assert os.environ["TORCHDYNAMO_DISABLE"] == "0"
    with pytest.raises(BadOption, match="--compile is for a GPU"):
        prepare(Pi05Options(compile=True), context("cpu"))
