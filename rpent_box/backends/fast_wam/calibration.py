# SPDX-License-Identifier: Apache-2.0
"""What both directions of an adapter share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.fast_wam.layout import DIMENSIONS, Layout
from rpent_box.backends.fast_wam.normaliser import Normaliser, read_normaliser
from rpent_box.backends.fast_wam.recipe import Precision, Recipe


class Calibration(Struct, frozen=True, kw_only=True):
    """How observations become the model's input, and its output actions."""

    layout: Layout
    state: Normaliser
    action: Normaliser
    pixels: NDArray[np.float32]
    """float32 [256]: a pixel's value → what the model is given for it."""
    action_horizon: int
    binarize_gripper: bool


def read_calibration(
    statistics: Mapping[str, Any], layout: Layout, recipe: Recipe, *, role: str
) -> Calibration:
    """Return the calibration that `statistics` give. Raises `BadCheckpoint`."""
    states, actions = DIMENSIONS[recipe.platform]
    return Calibration(
        layout=layout,
        state=read_normaliser(
            statistics, "state", layout.state_key, layout.state_mode, states, role=role
        ),
        action=read_normaliser(
            statistics, "action", layout.action_key, layout.action_mode, actions, role=role
        ),
        pixels=pixel_values(recipe.precision),
        action_horizon=recipe.action_horizon,
        binarize_gripper=recipe.binarize_gripper,
    )


def pixel_values(precision: Precision) -> NDArray[np.float32]:
    """Return float32 [256]: `value * (2 / 255) - 1`, rounded after each step as `precision` does.

    FastWAM scales frames in the model's own precision; of 256 values the result can be tabled.
    """
    values = np.arange(256, dtype=np.float32)
    scaled = _rounded(values * np.float32(2.0 / 255.0), precision)
    return _rounded(scaled - np.float32(1.0), precision)


def _rounded(values: NDArray[np.float32], precision: Precision) -> NDArray[np.float32]:
    if precision == "fp32":
        return values
    if precision == "fp16":
        return values.astype(np.float16).astype(np.float32)
    # bfloat16 is the upper half of a float32, rounded to the nearest, ties to even.
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    upper: NDArray[np.float32] = (rounded & np.uint32(0xFFFF0000)).view(np.float32)
    return upper
