# SPDX-License-Identifier: Apache-2.0
"""What the backend asks of a model: openpi's policy, or a fake of it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.pi05.adapter import LiberoInput


class Policy(Protocol):
    """A loaded policy. Remembers nothing between calls."""

    @property
    def noise_shape(self) -> tuple[int, int]:
        """[horizon, the model's own action columns]."""

    def infer(
        self, shown: LiberoInput, *, noise: NDArray[np.float32], num_steps: int
    ) -> NDArray[Any]:
        """Return native actions [horizon, 7] from `noise`, in `num_steps` denoising steps."""
