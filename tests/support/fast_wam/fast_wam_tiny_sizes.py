# SPDX-License-Identifier: Apache-2.0
"""The sizes of the tiny FastWAM, and the YAML that tells them."""

from __future__ import annotations

from typing import Any

import yaml

STEPS = 0
TEXT_ENCODER = {
    "vocab": 80,
    "dim": 16,
    "dim_attn": 16,
    "dim_ffn": 32,
    "num_heads": 2,
    "num_layers": 2,
}
VAE = {"dim": 8, "z_dim": 48}
_VIDEO = {"hidden_dim": 48, "ffn_dim": 64, "freq_dim": 32, "text_dim": TEXT_ENCODER["dim"]}
_ACTION = {"hidden_dim": 32, "ffn_dim": 64, "freq_dim": 32, "text_dim": TEXT_ENCODER["dim"]}
_BOTH = {"num_heads": 2, "attn_head_dim": 24, "num_layers": 2}


def overrides() -> list[str]:
    """What to change in FastWAM's own configuration, as Hydra reads it."""
    return [
        f"model.{part}_dit_config.{name}={size}"
        for part, sizes in (("video", _VIDEO | _BOTH), ("action", _ACTION | _BOTH))
        for name, size in sizes.items()
    ]


def yaml_of(platform: str, *, steps: int = 2, precision: str = "fp32") -> str:
    """Return the worker's YAML: few denoising steps, everything else as it comes."""
    composed = {
        "overrides": overrides(),
        "components": {"text_encoder": TEXT_ENCODER, "vae": VAE},
    }
    config: dict[str, Any] = {"precision": precision, "fastwam": composed}
    if platform == "robotwin":
        config["inference_options"] = {"num_inference_steps": steps}
    else:
        config["num_inference_steps"] = steps
    return yaml.safe_dump(config, sort_keys=False)
