# SPDX-License-Identifier: Apache-2.0
"""Judge a network on the held-out episodes, in units that mean something."""

from __future__ import annotations

import math

import numpy as np
import torch

from rpent_box.backends.mini_wam.network import MiniWamNetwork
from rpent_box.backends.mini_wam.rows import Rows


def validate(network: MiniWamNetwork, rows: Rows) -> dict[str, float]:
    """Return mean errors of an `eval()` network over the held-out rows; empty without any."""
    if not len(rows.held_out):
        return {}
    batch = rows.batch(rows.held_out, precision=torch.float32)
    with torch.no_grad():
        thought = network.think(batch.frames, batch.proprio, batch.instruction)
        raw = network.decide(thought)
        progress = network.progress(thought)[:, 0].clamp(0, 1)
        places = network.places(thought)
        change = network.imagine(thought, batch.actions, batch.now)
    off = (places - batch.places).abs().numpy() * rows.places_deviation * 1000
    shown = batch.has_future > 0
    same_grip = (raw[..., 6] > 0) == (batch.actions[..., 6] > 0)
    return {
        "rows": float(len(rows.held_out)),
        "position_error": float((raw[..., :3] - batch.actions[..., :3]).abs().mean()),
        "rotation_error": float((raw[..., 3:6] - batch.actions[..., 3:6]).abs().mean()),
        "gripper_accuracy": float(same_grip.float().mean()),
        "thing_error_mm": float(np.mean(off[:, :2])),
        "goal_error_mm": float(np.mean(off[:, 3:5])),
        "progress_error": float((progress - batch.progress).abs().mean()),
        "future_db": _decibel((batch.now + change)[shown], (batch.now + batch.change)[shown]),
        "copied_future_db": _decibel(batch.now[shown], (batch.now + batch.change)[shown]),
    }


def _decibel(frames: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the peak signal-to-noise ratio; frames span 1.0."""
    error = float((frames.clamp(-0.5, 0.5) - wanted).square().mean())
    return -10 * math.log10(max(error, 1e-12))
