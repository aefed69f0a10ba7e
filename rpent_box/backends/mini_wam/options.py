# SPDX-License-Identifier: Apache-2.0
"""The options of a mini-wam worker."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

Sight: TypeAlias = Literal["frames", "grey"]


class MiniWamOptions(Struct, frozen=True, kw_only=True):
    """Options of a mini-wam worker."""

    predict_future: Annotated[
        bool,
        Meta(description="also return the frame expected after the chunk, and the progress"),
    ] = False
    see: Annotated[
        Sight,
        Meta(description="what the network gets to see: the frames, or, to blind it, plain grey"),
    ] = "frames"
