# SPDX-License-Identifier: Apache-2.0
"""What is sent to `/v1/actions/generations`, field by field as upstream's client sends it."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from rpent_box.backends.cosmos3.adapter.encode import ModelInput, png
from rpent_box.backends.cosmos3.settings import Settings
from rpent_box.backends.cosmos3.statistics import ACTION_NUMBERS

URI_PREFIX = "data:image/png;base64,"


class Input(Struct, frozen=True, kw_only=True):
    """One entry per environment, in both lists."""

    prompt: list[str]
    input_reference: list[str]
    """PNG, as data URIs."""


class Parameters(Struct, frozen=True, kw_only=True):
    """Shared by every environment of the request, the seed too."""

    action_mode: str = "policy"
    raw_action_dim: int = ACTION_NUMBERS
    """The service knows no default for LIBERO."""
    num_frames: int
    action_fps: float
    action_view_point: str
    fps: int
    num_inference_steps: int
    seed: int
    height: int
    width: int
    domain_name: str


class Runtime(Struct, frozen=True, kw_only=True):
    """The form of the answer: numbers in JSON, one record per environment."""

    response_format: str = "envelope"
    output_format: str = "numpy"


class Request(Struct, frozen=True, kw_only=True):
    """The whole body."""

    input: Input
    parameters: Parameters
    runtime: Runtime = Runtime()

    def body(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(self)


def build_request(inputs: Sequence[ModelInput], settings: Settings, seed: int) -> Request:
    """Return one request for `inputs`, whose noise is drawn from `seed` together."""
    width, height = settings.width_height
    return Request(
        input=Input(
            prompt=[one.prompt for one in inputs],
            input_reference=[
                URI_PREFIX + base64.b64encode(png(one.image)).decode("ascii") for one in inputs
            ],
        ),
        parameters=Parameters(
            num_frames=settings.num_frames,
            action_fps=settings.action_fps,
            action_view_point=settings.action_view_point,
            fps=settings.fps,
            num_inference_steps=settings.num_inference_steps,
            seed=seed,
            height=height,
            width=width,
            domain_name=settings.domain_name,
        ),
    )
