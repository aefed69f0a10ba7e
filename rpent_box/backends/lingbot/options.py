# SPDX-License-Identifier: Apache-2.0
"""The options of a lingbot worker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rpent_box.backends.patience import LONGEST_S

ACTION_HORIZON = 50
"""Steps that the RoboTwin checkpoint predicts (`chunk_size` in its config.json)."""


class LingbotOptions(Struct, frozen=True, kw_only=True):
    """Options of a lingbot worker."""

    service: Annotated[
        str,
        Meta(
            description="a running LingBot server to borrow, ws://HOST:PORT; "
            "empty: start one from the checkpoint"
        ),
    ] = ""
    execute_steps: Annotated[
        int,
        Meta(ge=1, le=ACTION_HORIZON, description="steps of each chunk that are executed"),
    ] = ACTION_HORIZON
    robo_name: Annotated[
        str,
        Meta(description="robot named in each reset, for a server started without a robot's file"),
    ] = ""
    qwen_path: Annotated[
        str,
        Meta(
            description="folder of Qwen2.5-VL's configuration and tokenizer; "
            "empty: qwen_base/ in the checkpoint",
            extra={"path": True},
        ),
    ] = ""
    num_denoising_steps: Annotated[
        int, Meta(ge=1, le=1000, description="denoising steps of a server of ours")
    ] = 10
    seed: Annotated[
        int,
        Meta(
            ge=0,
            description="seeds the noise, with the episode and chunk; only in a server of ours: "
            "a borrowed one's protocol carries no seed",
        ),
    ] = 42
    start_timeout_s: Annotated[
        float, Meta(gt=0, le=LONGEST_S, description="how long a server of ours may take to load")
    ] = 1800.0
    connect_timeout_s: Annotated[
        float,
        Meta(gt=0, le=LONGEST_S, description="how long a connection and its greeting may take"),
    ] = 10.0
    reply_timeout_s: Annotated[
        float, Meta(gt=0, le=LONGEST_S, description="how long the server may take to answer")
    ] = 120.0
