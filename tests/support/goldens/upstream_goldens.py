# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of the models' own code, where they are at hand: `../shared/goldens`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from rpent_box.contracts.observation import Observation

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "goldens"


class Case:
    """One case: its arrays by name, and what was written down besides."""

    def __init__(self, name: str, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.name = name
        self.facts = facts
        self.arrays = arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def under(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the arrays called `prefix…`, by the rest of their names."""
        return {
            name.removeprefix(prefix): array
            for name, array in self.arrays.items()
            if name.startswith(prefix)
        }


def golden_json(name: str) -> Any:
    """Return `NAME.json`; skips the test where the goldens are not at hand."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"outputs of upstream code are not at hand ({FOLDER}/{name}.json)")
    return json.loads(path.read_text())


def golden_cases(name: str) -> list[Case]:
    """Return the cases of `NAME`, with their arrays; skips as `golden_json`."""
    described = golden_json(name)["cases"]
    arrays: dict[str, dict[str, NDArray[Any]]] = {}
    path = FOLDER / f"{name}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as stored:
            for full in stored.files:
                case, _, field = full.partition("/")
                arrays.setdefault(case, {})[field] = stored[full]
    found = [Case(case["case"], case, arrays.get(case["case"], {})) for case in described]
    assert found, f"{name} holds no cases"
    return found


def shown_by_libero(case: Case, dtype: DTypeLike, instruction: str) -> Observation:
    """Return what the platform shows of a case's raw observation; its proprio as `dtype`."""
    return Observation(
        images={
            "primary": np.ascontiguousarray(case["raw_agentview_image"][::-1]),
            "wrist": np.ascontiguousarray(case["raw_robot0_eye_in_hand_image"][::-1]),
        },
        proprio={
            "eef_position": case["raw_robot0_eef_pos"].astype(dtype),
            "eef_quaternion_xyzw": case["raw_robot0_eef_quat"].astype(dtype),
            "gripper_qpos": case["raw_robot0_gripper_qpos"].astype(dtype),
        },
        instruction=instruction,
    )
