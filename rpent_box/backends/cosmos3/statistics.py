# SPDX-License-Identifier: Apache-2.0
"""The numbers that actions were normalised with, and the way back."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.checkpoint_files import read_json
from rpent_box.backends.cosmos3.options import Normalisation
from rpent_box.backends.statistics_files import require_range, require_vector
from rpent_box.errors import BadCheckpoint

ACTION_NUMBERS = 10
"""Position 3, rotation 6, gripper 1."""
_BELONGS = {7: "an axis-angle model", 10: "a rot6d model"}


class Denormaliser(Struct, frozen=True, kw_only=True):
    """Undoes one way of normalising, in float32 as the model was trained."""

    method: Normalisation
    low: NDArray[np.float32]
    """[10]: what -1 stands for; the mean for `meanstd`. Unused for `none`."""
    high: NDArray[np.float32]
    """[10]: what +1 stands for; the standard deviation for `meanstd`."""

    def undo(self, normalised: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return [steps, 10] in the units of the training data.

        Nothing is limited to a range; what float32 cannot hold becomes infinite.
        """
        if self.method == "none":
            return normalised
        with np.errstate(over="ignore", invalid="ignore"):
            if self.method == "meanstd":
                undone = normalised * self.high + self.low
            else:
                undone = (normalised + 1.0) / 2.0 * (self.high - self.low) + self.low
        return undone.astype(np.float32, copy=False)


def read_denormaliser(path: str | None, method: Normalisation) -> Denormaliser:
    """Read the statistics at `path` for `method`. Raises `BadCheckpoint`.

    `quantile_rot` left the rotation as it was recorded, and has its own block, `global_raw`; the
    other ways use `global`. A file without blocks is taken as the block itself.
    """
    if method == "none":
        nothing = np.zeros(ACTION_NUMBERS, np.float32)
        return Denormaliser(method=method, low=nothing, high=nothing)
    if path is None:
        raise BadCheckpoint(f"{method} needs the action statistics", hint="--action-stats PATH")
    role = f"action statistics {path}"
    statistics = read_json(path, role="action statistics")
    block = "global_raw" if method == "quantile_rot" else "global"
    found = statistics.get(block, statistics)
    if block not in statistics and ({"global", "global_raw"} & set(statistics)):
        raise BadCheckpoint(
            f"the {role} have no {block}, which {method} needs; they have {', '.join(statistics)}",
            hint="Give the statistics of this checkpoint's training, or its --action-normalization",
        )
    if not isinstance(found, dict):
        raise BadCheckpoint(f"{block} in the {role} is a {type(found).__name__}; wanted an object")
    if method == "meanstd":
        low = require_vector(found, ("mean",), ACTION_NUMBERS, role=role, belongs=_BELONGS)
        high = require_vector(found, ("std",), ACTION_NUMBERS, role=role, belongs=_BELONGS)
        if (high < 0).any():
            raise BadCheckpoint(f"std in the {role} has a negative number")
    else:
        ends = ("min", "max") if method == "minmax" else ("q01", "q99")
        low, high = require_range(
            found, ends[:1], ends[1:], ACTION_NUMBERS, role=role, belongs=_BELONGS
        )
    return Denormaliser(method=method, low=low.astype(np.float32), high=high.astype(np.float32))
