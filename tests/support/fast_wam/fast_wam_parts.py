# SPDX-License-Identifier: Apache-2.0
"""Small pieces of fast-wam for tests: statistics, calibrations, observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rpent_box.backends.fast_wam.calibration import Calibration, read_calibration
from rpent_box.backends.fast_wam.layout import DIMENSIONS, Layout, known_layout
from rpent_box.backends.fast_wam.options import FastWamOptions
from rpent_box.backends.fast_wam.recipe import Recipe, read_recipe
from rpent_box.contracts.observation import Observation

INSTRUCTION = "put the bowl on the plate"


def statistics(platform: str = "libero", *, seed: int = 0) -> dict[str, Any]:
    """A data set's statistics of the right lengths, every range wide enough."""
    rng = np.random.default_rng(seed)
    state, action = DIMENSIONS[platform]
    return {"state": {"default": _part(rng, state)}, "action": {"default": _part(rng, action)}}


def _part(rng: np.random.Generator, length: int) -> dict[str, list[float]]:
    low = rng.uniform(-2, -0.5, length)
    high = rng.uniform(0.5, 2, length)
    return {
        "global_min": low.tolist(),
        "global_max": high.tolist(),
        "global_q01": (low * 0.9).tolist(),
        "global_q99": (high * 0.9).tolist(),
        "global_mean": ((low + high) / 2).tolist(),
        "global_std": ((high - low) / 4).tolist(),
    }


def recipe(platform: str = "libero", **changed: Any) -> Recipe:
    return replace(read_recipe(FastWamOptions(), platform), **changed)


def calibration(
    platform: str = "libero",
    *,
    layout: Layout | None = None,
    values: dict[str, Any] | None = None,
    **changed: Any,
) -> Calibration:
    return read_calibration(
        values or statistics(platform),
        layout or known_layout(platform),
        recipe(platform, **changed),
        role="statistics test.json",
    )


def libero_observation(
    primary: NDArray[np.uint8] | None = None, wrist: NDArray[np.uint8] | None = None
) -> Observation:
    blank = np.zeros((256, 256, 3), np.uint8)
    return Observation(
        images={
            "primary": blank if primary is None else primary,
            "wrist": blank if wrist is None else wrist,
        },
        proprio={
            "eef_position": np.array([0.1, -0.2, 1.0], np.float32),
            "eef_quaternion_xyzw": np.array([0.99, 0.1, 0.05, 0.08], np.float32),
            "gripper_qpos": np.array([0.04, -0.04], np.float32),
        },
        instruction=INSTRUCTION,
    )


def robotwin_observation(*images: NDArray[np.uint8]) -> Observation:
    frames = images or tuple(np.zeros((240, 320, 3), np.uint8) for _ in range(3))
    roles = ("head", "left_wrist", "right_wrist")
    return Observation(
        images=dict(zip(roles, frames, strict=True)),
        proprio={"joint_targets": np.linspace(-1, 1, 14, dtype=np.float32)},
        instruction=INSTRUCTION,
    )
