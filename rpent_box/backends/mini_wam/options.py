# SPDX-License-Identifier: Apache-2.0
"""The options of a mini-wam worker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class MiniWamOptions(Struct, frozen=True, kw_only=True):
    """Options of a mini-wam worker."""

    predict_future: Annotated[
        bool,
        Meta(description="also return the frame expected after the chunk, and the progress"),
    ] = False
