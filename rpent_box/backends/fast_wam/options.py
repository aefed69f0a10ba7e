# SPDX-License-Identifier: Apache-2.0
"""The options of a fast-wam worker. What belongs to the model itself is in its YAML: recipe.py."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class FastWamOptions(Struct, frozen=True, kw_only=True):
    """Options of a fast-wam worker."""

    config: Annotated[
        str,
        Meta(
            description="the worker's YAML: horizon, denoising steps, gripper, model "
            "configuration; without it, FastWAM's own for the platform",
            extra={"path": True},
        ),
    ] = ""
    dataset_stats: Annotated[
        str,
        Meta(
            description="the dataset statistics, where they are not beside the weights",
            extra={"path": True},
        ),
    ] = ""
    model_base_path: Annotated[
        str,
        Meta(
            description="the folder with the VAE, the text encoder and its tokenizer (Wan-AI/…), "
            "where that is not the weights' own",
            extra={"path": True},
        ),
    ] = ""
    config_dir: Annotated[
        str,
        Meta(
            description="FastWAM's configs folder; without it, the YAML's, else the installed one",
            extra={"path": True},
        ),
    ] = ""
    integration: Annotated[
        Literal["official", "rlinf"],
        Meta(
            description="whose inference code: FastWAM's own, or RLinf's policy (LIBERO only, "
            "where RLinf is installed)"
        ),
    ] = "official"
    seed: Annotated[
        int | None,
        Meta(
            description="seeds the noise, together with the episode; without it, the YAML's, or 1"
        ),
    ] = None
