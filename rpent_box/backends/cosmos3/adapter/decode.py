# SPDX-License-Identifier: Apache-2.0
"""From the model's normalised numbers to LIBERO's actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.adapter import require_output, to_actions
from rpent_box.backends.cosmos3.adapter.recipe import Recipe
from rpent_box.backends.cosmos3.adapter.rotation import rotation_vectors
from rpent_box.backends.cosmos3.statistics import ACTION_NUMBERS
from rpent_box.contracts.observation import Actions

BACKEND = "cosmos3"


def decode_libero(values: NDArray[Any], recipe: Recipe) -> Actions:
    """Return float32 [num_action_chunks, 7] from the model's [horizon, 10 or more].

    Channels past the tenth are padding. A longer horizon is cut; a shorter one goes on with its
    last step, as upstream does. Raises `BadActions` before anything could hide a bad number.
    """
    used = values[:, :ACTION_NUMBERS] if values.ndim == 2 else values
    normalised = require_output(used, (1, ACTION_NUMBERS), backend=BACKEND).astype(np.float32)
    raw = recipe.denormaliser.undo(normalised)
    require_output(raw, (1, ACTION_NUMBERS), backend=BACKEND)
    rotation = rotation_vectors(raw[:, 3:9])
    actions = np.concatenate([raw[:, :3], rotation, libero_gripper(raw[:, 9:10])], axis=1)
    return to_actions(of_length(actions, recipe.num_action_chunks), backend=BACKEND)


def libero_gripper(openness: NDArray[Any]) -> NDArray[Any]:
    """Return -1 (open) or +1 (close) from the model's 1 (open) to 0 (closed); 0.5 gives 0."""
    return -np.sign(2.0 * openness - 1.0)


def of_length(actions: NDArray[Any], steps: int) -> NDArray[Any]:
    """Return exactly `steps` rows: the first ones, or all and then the last one over and over."""
    missing = steps - len(actions)
    if missing <= 0:
        return actions[:steps]
    return np.concatenate([actions, np.repeat(actions[-1:], missing, axis=0)])
