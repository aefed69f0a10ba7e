# SPDX-License-Identifier: Apache-2.0
"""The options of a cosmos-policy worker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

ACTION_HORIZON = 16
"""Steps that one inference predicts; the network is trained for exactly these."""


class CosmosPolicyOptions(Struct, frozen=True, kw_only=True):
    """Options of a cosmos-policy worker."""

    dataset_stats: Annotated[
        str,
        Meta(
            description="the statistics, where they are not in the checkpoint's folder",
            extra={"path": True},
        ),
    ] = ""
    text_embeddings: Annotated[
        str,
        Meta(
            description="the converted text embeddings (.safetensors), where they are not in the "
            "checkpoint's folder",
            extra={"path": True},
        ),
    ] = ""
    hf_home: Annotated[
        str,
        Meta(
            description="the Hugging Face cache with nvidia/Cosmos-Predict2-2B-Video2World, where "
            "it is not `huggingface/` in the checkpoint's folder",
            extra={"path": True},
        ),
    ] = ""
    denoising_steps: Annotated[
        int, Meta(description="denoising steps for the actions", ge=1, le=1000)
    ] = 5
    execute_steps: Annotated[
        int,
        Meta(
            description="steps executed before the model is asked again",
            ge=1,
            le=ACTION_HORIZON,
        ),
    ] = ACTION_HORIZON
    seed: Annotated[
        int, Meta(description="seeds the noise, together with the episode", ge=0, lt=2**31)
    ] = 1
    cached_instructions_only: Annotated[
        bool,
        Meta(
            description="refuse an instruction without a text embedding, instead of loading T5-11B"
        ),
    ] = False
    predict_future: Annotated[
        bool,
        Meta(description="also return the frames expected after the chunk, and the value"),
    ] = False
