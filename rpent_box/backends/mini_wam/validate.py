# SPDX-License-Identifier: Apache-2.0
"""Judge a network on the held-out episodes, in units that mean something."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.network import MiniWamNetwork, executed
from rpent_box.backends.mini_wam.rows import Rows

ROWS_AT_ONCE = 256


def validate(network: MiniWamNetwork, rows: Rows) -> dict[str, float]:
    """Return mean errors of an `eval()` network over the held-out rows; empty without any.

    Actions in LIBERO's units, from -1 to 1; places in mm along each of the three axes, as the loss
    has them. `future_db` is of frames imagined from the actions that were executed, which whoever
    recorded them chose; a deployed network imagines what its own actions lead to.
    """
    if not len(rows.held_out):
        return {}
    parts = np.array_split(rows.held_out, math.ceil(len(rows.held_out) / ROWS_AT_ONCE))
    judged = np.stack([_judge(network, rows, part) for part in parts])
    means = dict(zip(_JUDGED, np.average(judged, 0, [len(part) for part in parts]), strict=True))
    shown = means.pop("shown")
    return {
        "rows": float(len(rows.held_out)),
        **{name: float(value) for name, value in means.items() if not name.endswith("_square")},
        "future_db": _decibel(means["future_square"], shown),
        "copied_future_db": _decibel(means["copied_future_square"], shown),
    }


_JUDGED = (
    "position_error",
    "rotation_error",
    "gripper_accuracy",
    "thing_axis_error_mm",
    "goal_axis_error_mm",
    "progress_error",
    "future_square",
    "copied_future_square",
    "shown",
)


def _judge(network: MiniWamNetwork, rows: Rows, picked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of each of `_JUDGED` over some rows."""
    batch = rows.batch(picked, precision=torch.float32)
    with torch.no_grad():
        thought = network.think(batch.frames, batch.proprio, batch.instruction)
        raw = network.decide(thought)
        progress = network.progress(thought)[:, 0].clamp(0, 1)
        places = network.places(thought)
        change = network.imagine(thought, executed(batch.executed), batch.now)
    off = (places - batch.places).abs().numpy() * rows.places_deviation * 1000
    same_grip = (raw[..., 6] > 0) == (batch.actions[..., 6] > 0)
    # A row without a future counts nothing to the frames' errors and nothing to `shown`.
    missed = ((batch.now + change).clamp(0, 1) - batch.now - batch.change).square().mean((1, 2, 3))
    copied = batch.change.square().mean((1, 2, 3))
    return np.array(
        [
            float((raw[..., :3] - batch.actions[..., :3]).abs().mean()),
            float((raw[..., 3:6] - batch.actions[..., 3:6]).abs().mean()),
            float(same_grip.float().mean()),
            float(np.mean(off[:, :3])),
            float(np.mean(off[:, 3:])),
            float((progress - batch.progress).abs().mean()),
            float((missed * batch.has_future).mean()),
            float((copied * batch.has_future).mean()),
            float(batch.has_future.mean()),
        ]
    )


def _decibel(square: float, shown: float) -> float:
    """Return the peak signal-to-noise ratio of frames from 0 to 1, of which a share is shown."""
    return -10 * math.log10(max(square / max(shown, 1e-12), 1e-12))
