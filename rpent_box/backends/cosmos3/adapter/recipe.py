# SPDX-License-Identifier: Apache-2.0
"""What both directions of an adapter must agree on."""

from __future__ import annotations

from msgspec import Struct

from rpent_box.backends.cosmos3.statistics import Denormaliser


class Recipe(Struct, frozen=True, kw_only=True):
    """How a checkpoint was trained, as far as its client must know."""

    width_height: tuple[int, int]
    """The model's frame in pixels."""
    num_action_chunks: int
    """Steps that a prediction is cut, or filled up, to."""
    denormaliser: Denormaliser
