# SPDX-License-Identifier: Apache-2.0
"""What the model is given for an instruction: its embedding, or its words, or a refusal."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.cosmos_policy.embeddings import TextEmbeddings
from rpent_box.errors import BadObservation


class Instructions(Struct, frozen=True, kw_only=True):
    """Knows which instructions can be followed."""

    embeddings: TextEmbeddings
    cached_only: bool
    can_embed: bool
    """T5-11B is at hand, so that Cosmos Policy's own code can embed a new instruction."""

    def condition(self, instruction: str) -> NDArray[np.float32] | str:
        """Return the embedding [1, 512, 1024], or the words where the model has to embed them.

        Raises `BadObservation` for an instruction that nobody can embed.
        """
        embedding = self.embeddings.find(instruction)
        if embedding is not None:
            return embedding
        if self.cached_only or not self.can_embed:
            raise self._refusal(instruction)
        return instruction

    def _refusal(self, instruction: str) -> BadObservation:
        near = self.embeddings.near(instruction)
        closest = " Closest: " + "; ".join(near) + "." if near else ""
        if self.cached_only:
            hint = "Serve without --cached-instructions-only to let T5-11B embed new ones."
        else:
            hint = "Fetch google-t5/t5-11b into the Hugging Face cache that --hf-home names."
        return BadObservation(
            f"there is no text embedding of the instruction {instruction!r} among the "
            f"{len(self.embeddings.instructions)} cached ones.{closest}",
            hint=hint,
        )
