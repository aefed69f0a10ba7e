# SPDX-License-Identifier: Apache-2.0
"""FastWAM's linear normalisation, in float32 and in its own order of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.statistics_files import require_range, require_vector
from rpent_box.contracts.observation import Vector
from rpent_box.errors import BadCheckpoint

# FastWAM, src/fastwam/datasets/lerobot/utils/normalizer.py, SingleFieldLinearNormalizer.
SMALLEST_RANGE = np.float32(1e-4)
DEVIATION_GUARD = np.float32(1e-8)
LARGEST_INPUT = np.float32(5.0)


class Normaliser(Struct, frozen=True, kw_only=True):
    """`x * scale + offset`, and back."""

    scale: Vector
    offset: Vector

    def forward(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what the model is given: float32, limited to [-5, 5]."""
        scaled: NDArray[np.float32] = values * self.scale + self.offset
        return np.clip(scaled, -LARGEST_INPUT, LARGEST_INPUT)

    def backward(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what the model meant: float32, not limited."""
        with np.errstate(over="ignore"):
            meant: NDArray[np.float32] = (values - self.offset) / self.scale
        return meant


def by_range(low: Vector, high: Vector) -> Normaliser:
    """Map [low, high] to [-1, 1]; a column that hardly moves is only shifted, to begin at zero."""
    width = high - low
    still = width < SMALLEST_RANGE
    width = np.where(still, np.float32(2.0), width)
    scale = np.float32(2.0) / width
    offset = np.float32(-1.0) - scale * low
    return Normaliser(scale=scale, offset=np.where(still, np.float32(0.0) - low, offset))


def by_deviation(mean: Vector, deviation: Vector) -> Normaliser:
    """Map the mean to 0 and one standard deviation to 1."""
    guarded = deviation + DEVIATION_GUARD
    return Normaliser(scale=np.float32(1.0) / guarded, offset=-mean / guarded)


def read_normaliser(
    statistics: Mapping[str, Any], part: str, key: str, mode: str, length: int, *, role: str
) -> Normaliser:
    """Return the normaliser of `part` (`state` or `action`) from a data set's statistics.

    `mode` is as in `Layout`. Raises `BadCheckpoint` for statistics that are missing, of another
    robot, or that cannot normalise.
    """
    belongs = {7: "LIBERO", 14: "RoboTwin"} if part == "action" else {8: "LIBERO", 14: "RoboTwin"}

    def vector(name: str) -> Vector:
        place = (part, key, f"global_{name}")
        found = require_vector(statistics, place, length, role=role, belongs=belongs)
        return found.astype(np.float32)

    def bounds(low: str, high: str) -> tuple[Vector, Vector]:
        places = ((part, key, f"global_{low}"), (part, key, f"global_{high}"))
        found = require_range(statistics, *places, length, role=role, belongs=belongs)
        return found[0].astype(np.float32), found[1].astype(np.float32)

    if mode == "z-score":
        deviation = vector("std")
        if (deviation < 0).any():
            raise BadCheckpoint(f"the standard deviation of the {part} in the {role} is below zero")
        return by_deviation(vector("mean"), deviation)
    if mode in ("min/max", "q01/q99"):
        return by_range(*bounds(*mode.split("/")))
    vector("min")  # its length still tells whose statistics these are
    low, high = (np.full(length, float(number), np.float32) for number in mode.split("/"))
    return by_range(low, high)
