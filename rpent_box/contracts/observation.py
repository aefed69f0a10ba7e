# SPDX-License-Identifier: Apache-2.0
"""What a platform shows and what a model answers, as plain arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Image: TypeAlias = NDArray[np.uint8]
"""uint8 RGB [height, width, 3], upright as a person sees it, C-contiguous."""

Vector: TypeAlias = NDArray[np.float32]
"""float32 [n], SI units."""

Actions: TypeAlias = NDArray[np.float32]
"""float32 [steps, action_dim], native units of the action space."""


class Observation(Struct, frozen=True, kw_only=True):
    """Frames, proprio and instruction at one instant. Holds no model normalisation."""

    images: dict[str, Image]
    """Camera role (`primary`, `wrist`, …) → pixels."""
    proprio: dict[str, Vector]
    """The robot's named measurements, e.g. `eef_position` (metres, world frame).

    `joint_targets` are controller set-points, `joint_positions` are measured.
    """
    instruction: str
    """The sentence given to the model, as the task states it."""


class ActionChunk(Struct, frozen=True, kw_only=True):
    """What one prediction gives back."""

    actions: Actions
    """float32 [execute_steps, action_dim]: the executable prefix of the model's horizon."""
    future_observation: dict[str, Image] | None = None
    """Camera role → the frame that the model expects after the chunk, at the model's own size."""
    value: float | None = None
    """The model's own estimate of progress or success; its scale is the model's."""
    metadata: dict[str, float | int | str | bool] = {}
    """Small facts about this prediction, e.g. the noise seed."""
    timings_s: dict[str, float] = {}
    """Stage (`queue`, `encode`, `infer`, `decode`, `transport`) → seconds."""
