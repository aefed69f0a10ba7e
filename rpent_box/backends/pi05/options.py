# SPDX-License-Identifier: Apache-2.0
"""The options of a pi05 worker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

DEFAULT_CONFIG = "pi05_libero"
DEFAULT_ASSET_ID = "physical-intelligence/libero"
MOST_STEPS = 1000
LAST_SEED = 2**31 - 1


class Pi05Options(Struct, frozen=True, kw_only=True):
    """Options of a pi05 worker."""

    config_name: Annotated[
        str, Meta(description="openpi's name of the training configuration", min_length=1)
    ] = DEFAULT_CONFIG
    config_file: Annotated[
        str | None,
        Meta(
            description="a Python file of yours with openpi TrainConfigs in a list CONFIGS; "
            "it is executed, and its configurations go before openpi's own",
            extra={"path": True},
        ),
    ] = None
    execute_steps: Annotated[
        int, Meta(description="steps of each predicted chunk that are executed", ge=1)
    ] = 5
    num_steps: Annotated[
        int, Meta(description="denoising steps of a prediction", ge=1, le=MOST_STEPS)
    ] = 10
    seed: Annotated[
        int, Meta(description="seeds the noise, together with the episode", ge=0, le=LAST_SEED)
    ] = 0
    asset_id: Annotated[
        str, Meta(description="the checkpoint's folder of statistics", min_length=1)
    ] = DEFAULT_ASSET_ID
    norm_stats: Annotated[
        str | None,
        Meta(
            description="norm_stats.json, or its folder; without it: the one of the asset id "
            "in the checkpoint",
            extra={"path": True},
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        Meta(
            description="paligemma_tokenizer.model, or the folder that openpi calls "
            "OPENPI_DATA_HOME; without it: the one in the checkpoint",
            extra={"path": True},
        ),
    ] = None
    compile: Annotated[
        bool,
        Meta(
            description="compile the sampler as openpi does (GPU only): faster predictions, and "
            "minutes before the first"
        ),
    ] = False
