# SPDX-License-Identifier: Apache-2.0
"""The floor: one copy of the observation into shared memory, and nothing else."""

from __future__ import annotations

import secrets

import numpy as np

from benchmarks.transport.cases import Actions, Case, Images
from rpent_box.transport.segment import Segment


class Client:
    """Copies into a populated segment."""

    def __init__(self, address: str, case: Case) -> None:
        self._case = case
        self._segment = Segment.create(f"/rpent-box.bench-{secrets.token_hex(8)}", case.nbytes)
        self._target = np.frombuffer(self._segment.buffer, np.uint8)

    def ask(self, images: Images) -> Actions | None:
        """Copy every image; there is no answer."""
        start = 0
        for image in images.values():
            np.copyto(self._target[start : start + image.size].reshape(image.shape), image)
            start += image.size
        return None

    def close(self) -> None:
        del self._target
        self._segment.close()
