# SPDX-License-Identifier: Apache-2.0
"""The options of a cosmos3 worker, as they are given: one that is not given has no value here.

What they come to, with the configuration file and the defaults, is `settings.Settings`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from rpent_box.backends.patience import LONGEST_S

Normalisation: TypeAlias = Literal["quantile_rot", "quantile", "meanstd", "minmax", "none"]


class Cosmos3Options(Struct, frozen=True, kw_only=True):
    """Options of a cosmos3 worker. Those that are given win over `config`."""

    sglang_endpoint: Annotated[
        str,
        Meta(description="the running SGLang service, e.g. http://127.0.0.1:30000; always needed"),
    ] = ""
    config: Annotated[
        str | None,
        Meta(
            description="YAML in RLinf's resolved form (env.eval, rollout.model, rollout.sglang)",
            extra={"path": True},
        ),
    ] = None
    action_stats: Annotated[
        str | None,
        Meta(
            description="JSON with the action statistics that the checkpoint was trained with",
            extra={"path": True},
        ),
    ] = None
    action_normalization: Annotated[
        Normalisation | None,
        Meta(description="how actions were normalised; quantile_rot unless config says otherwise"),
    ] = None
    num_action_chunks: Annotated[
        int | None, Meta(description="steps to execute of each prediction; else config, else 16")
    ] = None
    num_frames: Annotated[
        int | None,
        Meta(description="frames of the imagined video, 1 + a multiple of 4; else config, else 17"),
    ] = None
    action_fps: Annotated[
        float | None, Meta(description="actions per second told to the model; else config, else 20")
    ] = None
    fps: Annotated[
        int | None, Meta(description="frames per second told to the model; else config, else 20")
    ] = None
    num_inference_steps: Annotated[
        int | None, Meta(description="denoising steps; else config, else 30")
    ] = None
    size: Annotated[
        str | None, Meta(description="WIDTHxHEIGHT of the model's frame; else config, else 320x192")
    ] = None
    domain_name: Annotated[
        str | None, Meta(description="the model's action domain; else config, else libero")
    ] = None
    action_view_point: Annotated[
        str | None, Meta(description="the view told to the model; else config, else ego_view")
    ] = None
    seed: Annotated[
        int | None, Meta(description="what all noise is drawn from; else config, else 1")
    ] = None
    http_timeout_s: Annotated[
        float | None, Meta(description="how long a prediction may take; else config, else 600")
    ] = None
    batching_max_size: Annotated[
        int | None,
        Meta(
            description="environments in one request; above 1, an environment's noise depends on "
            "which others are in its request; else config, else 1"
        ),
    ] = None
    concurrent_requests: Annotated[
        int, Meta(description="requests under way at once; more helps only with SGLang replicas")
    ] = 1
    service_wait_s: Annotated[
        float,
        Meta(
            ge=0,
            le=LONGEST_S,
            description="how long to wait for the service to come up when starting",
        ),
    ] = 30.0
