# SPDX-License-Identifier: Apache-2.0
"""A settled scene of libero_spatial task 0, and what the shipped weights answer to it.

After new weights, write the answer anew: `python tests/support/mini_wam/mini_wam_golden.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rpent_box.backends.mini_wam.adapter.encode import CAMERA_ROLES, PROPRIO_SCHEMA
from rpent_box.backends.mini_wam.model import MiniWam, load
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.worker.backend import LoadContext, PredictionInput

FOLDER = Path(__file__).parents[2] / "unit" / "backends" / "mini_wam" / "golden"
SCENE = FOLDER / "scene.npz"
"""Frames 128x128: as the adapter reduces them."""
ANSWER = FOLDER / "answer.json"


def shipped(*, predict_future: bool = False, threads: int = 1) -> MiniWam:
    """Return the model with its built-in weights."""
    context = LoadContext(
        platform="libero", checkpoint=None, threads=threads, say=lambda phase: None
    )
    return load(MiniWamOptions(predict_future=predict_future), context)


def golden_observation() -> Observation:
    with np.load(SCENE, allow_pickle=False) as scene:
        return Observation(
            images={role: scene[role] for role in CAMERA_ROLES},
            proprio={name: scene[name] for name in PROPRIO_SCHEMA},
            instruction=str(scene["instruction"]),
        )


def golden_answer() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ANSWER.read_text())
    return answer


def predict(model: MiniWam, observation: Observation) -> ActionChunk:
    return model.predict(PredictionInput(observation=observation, session="golden"))


def main() -> None:
    model = shipped(predict_future=True)
    chunk = predict(model, golden_observation())
    assert chunk.future_observation is not None
    answer = {
        "weights_sha256": model.meta.provenance["weights_sha256"],
        "actions": [[round(float(number), 7) for number in row] for row in chunk.actions],
        "value": chunk.value,
        "future_mean": float(chunk.future_observation["primary"].mean()),
        "future_corner": chunk.future_observation["primary"][:2, :2].tolist(),
    }
    ANSWER.write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
