# SPDX-License-Identifier: Apache-2.0
"""How far an expert has come, from the way that is left."""

from __future__ import annotations

import numpy as np

METRES_PER_STEP = 0.011
"""The experts' average speed; turns distances into steps."""
STEPS_SHOWN_AS_ZERO_PROGRESS = 80.0


def share_done(
    left_m: float,
    *,
    of_steps: float = STEPS_SHOWN_AS_ZERO_PROGRESS,
    metres_per_step: float = METRES_PER_STEP,
) -> float:
    """Return how much of a task is done, 0 to 1, when the hand has `left_m` still to go."""
    steps = left_m / metres_per_step
    return float(np.clip(1.0 - steps / of_steps, 0.0, 1.0))
