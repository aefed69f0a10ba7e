# SPDX-License-Identifier: Apache-2.0
"""From an observation to RLinf's environment dictionary, and from its answer to actions.

RLinf resizes, joins and normalises by itself, and returns actions that LIBERO can execute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output, to_actions
from rpent_box.backends.fast_wam.adapter.encode import libero_state, mirror
from rpent_box.contracts.observation import Actions, Observation


class RlinfInput(Struct, frozen=True, kw_only=True):
    """A batch of one, as RLinf's LIBERO environment would give it."""

    main_images: NDArray[np.uint8]
    """uint8 [1, height, width, 3], turned by 180 degrees from the simulator's raw frame."""
    wrist_images: NDArray[np.uint8]
    states: NDArray[np.float32]
    """float32 [1, 8], not normalised."""
    task_descriptions: list[str]


def encode_rlinf(observation: Observation, steps: int) -> RlinfInput:
    """Return the batch of one; how many `steps` will come back changes nothing of it."""
    return RlinfInput(
        main_images=mirror(observation.images["primary"])[np.newaxis],
        wrist_images=mirror(observation.images["wrist"])[np.newaxis],
        states=libero_state(observation.proprio)[np.newaxis],
        task_descriptions=[observation.instruction],
    )


def decode_rlinf(output: NDArray[Any], steps: int) -> Actions:
    """Return float32 [steps, 7] from RLinf's [1, steps, 7]. Raises `BadActions`."""
    if output.ndim == 3 and output.shape[0] == 1:
        output = output[0]
    checked = require_output(output, (steps, 7), backend="fast-wam")
    return to_actions(checked, backend="fast-wam")
