# SPDX-License-Identifier: Apache-2.0
"""openpi's `pi05_libero`, with parts that fit into a megabyte: a file for `--config-file`.

openpi's own small variant leaves the vision tower and the vocabulary at their full sizes, which
are written into its code; they are made smaller here while the network is built. Everything that
then runs is openpi's.
"""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest import mock

import safetensors.torch
from openpi.models.pi0_config import Pi0Config
from openpi.models_pytorch import gemma_pytorch
from openpi.models_pytorch.pi0_pytorch import PI0Pytorch
from openpi.training import config as openpi_configs

WIDTH = 64
"""Of openpi's variant `dummy`."""
VOCABULARY = 512


def build(config: Pi0Config) -> PI0Pytorch:
    """Return openpi's PyTorch model with a small vision tower and a small vocabulary."""
    paligemma, gemma = (
        gemma_pytorch.PaliGemmaForConditionalGeneration,
        gemma_pytorch.GemmaForCausalLM,
    )

    def small_paligemma(config: Any) -> Any:
        config.text_config.vocab_size = VOCABULARY
        vision = config.vision_config
        vision.hidden_size, vision.intermediate_size = 32, 64
        vision.num_hidden_layers, vision.num_attention_heads = 2, 2
        vision.patch_size, vision.projection_dim = 56, WIDTH
        return paligemma(config=config)

    def small_gemma(config: Any) -> Any:
        config.vocab_size = VOCABULARY
        return gemma(config=config)

    with (
        mock.patch.object(gemma_pytorch, "PaliGemmaForConditionalGeneration", small_paligemma),
        mock.patch.object(gemma_pytorch, "GemmaForCausalLM", small_gemma),
    ):
        return PI0Pytorch(config)


@dataclasses.dataclass(frozen=True)
class TinyPi0Config(Pi0Config):
    """Builds the small network where openpi builds its own."""

    def load_pytorch(self, train_config: Any, weight_path: str) -> PI0Pytorch:
        model = build(self)
        safetensors.torch.load_model(model, weight_path)
        return model


_libero = openpi_configs.get_config("pi05_libero")

CONFIGS = [
    dataclasses.replace(
        _libero,
        name="tiny_libero",
        model=TinyPi0Config(
            paligemma_variant="dummy",
            action_expert_variant="dummy",
            pi05=True,
            action_horizon=_libero.model.action_horizon,
            discrete_state_input=_libero.model.discrete_state_input,
        ),
    ),
    # Reads the robot's state too, as words of the prompt: what Pi0.5 does outside of LIBERO.
    dataclasses.replace(
        _libero,
        name="tiny_state",
        model=TinyPi0Config(
            paligemma_variant="dummy",
            action_expert_variant="dummy",
            pi05=True,
            action_horizon=_libero.model.action_horizon,
            discrete_state_input=True,
        ),
    ),
]
