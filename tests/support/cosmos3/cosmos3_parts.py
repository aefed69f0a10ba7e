# SPDX-License-Identifier: Apache-2.0
"""Finished parts for tests: statistics, options, observations, a loaded worker's backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sglang_stub import MODEL, SGLangStub

from rpent_box.backends.cosmos3.model import Cosmos3, load
from rpent_box.backends.cosmos3.options import Cosmos3Options
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import LoadContext, PredictionInput

BLOCK = {
    "q01": [-0.6, -0.5, -0.9, 0.9, -0.1, -0.1, -0.1, 0.9, -0.1, 0.0],
    "q99": [0.7, 0.5, 0.8, 1.0, 0.1, 0.1, 0.1, 1.0, 0.1, 1.0],
    "mean": [0.0] * 3 + [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.5],
    "std": [0.3] * 3 + [0.01] * 6 + [0.5],
    "min": [-1.0] * 3 + [0.8, -0.2, -0.2, -0.2, 0.8, -0.2, 0.0],
    "max": [1.0] * 3 + [1.0, 0.2, 0.2, 0.2, 1.0, 0.2, 1.0],
}


def write_statistics(folder: Path, **changes: Any) -> Path:
    """Write statistics with both blocks; `changes` replace blocks."""
    path = folder / "libero_native_frame_wise_relative_rot6d.json"
    path.write_text(json.dumps({"global": BLOCK, "global_raw": BLOCK} | changes))
    return path


def options_for(stub: SGLangStub, statistics: Path, **options: Any) -> Cosmos3Options:
    return Cosmos3Options(
        sglang_endpoint=stub.endpoint,
        action_stats=str(statistics),
        **({"service_wait_s": 2.0} | options),
    )


def loaded(
    stub: SGLangStub,
    statistics: Path,
    *,
    platform: str = "libero",
    checkpoint: str | None = MODEL,
    phases: list[str] | None = None,
    **options: Any,
) -> Cosmos3:
    """Return the backend that a worker would load to speak to `stub`."""
    context = LoadContext(
        platform=platform,
        checkpoint=checkpoint,
        threads=1,
        say=(phases if phases is not None else []).append,
    )
    return load(options_for(stub, statistics, **options), context)


def scene(seed: int = 0, instruction: str = "pick the bowl", size: int = 256) -> Observation:
    generator = np.random.default_rng(seed)
    return Observation(
        images={
            role: generator.integers(0, 256, (size, size, 3), np.uint8)
            for role in ("primary", "wrist")
        },
        proprio={},
        instruction=instruction,
    )


def episode(chunk: int = 0, number: int = 0) -> EpisodeKey:
    return EpisodeKey(seed=7, suite="libero_spatial", task=0, episode=number, chunk=chunk)


def asked(observation: Observation, key: EpisodeKey | None = None) -> PredictionInput:
    return PredictionInput(observation=observation, session="test", episode=key)
