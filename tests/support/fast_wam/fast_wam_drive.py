# SPDX-License-Identifier: Apache-2.0
"""Load fast-wam in a Python that has FastWAM, ask it a few times, and print JSON.

    python fast_wam_drive.py CHECKPOINT PLATFORM '{"config": "…", …}' [MORE OPTIONS...]

Each of the last arguments holds a worker's options and gives one line. A refusal is printed too,
and is no failure.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any
from unittest import mock

import numpy as np
from fast_wam_parts import libero_observation, robotwin_observation
from msgspec.structs import replace

from rpent_box.backends.fast_wam import BACKEND
from rpent_box.backends.fast_wam.adapter.encode import prompt_of
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.errors import RpentBoxError
from rpent_box.worker.backend import Backend, LoadContext, PredictionInput

MARK = "answer: "


def main(checkpoint: str, platform: str, *jobs: str) -> int:
    for options in jobs:
        try:
            answer = drive(checkpoint, platform, json.loads(options))
        except RpentBoxError as error:
            answer = {"refused": type(error).__name__, "why": error.message, "hint": error.hint}
        sys.stdout.write(f"{MARK}{json.dumps(answer)}\n")
    return 0


def drive(checkpoint: str, platform: str, options: dict[str, Any]) -> dict[str, Any]:
    from fastwam.models.wan22.fastwam import FastWAM

    context = LoadContext(
        platform=platform, checkpoint=checkpoint, threads=1, device="cpu", say=lambda _: None
    )
    with mock.patch.object(
        FastWAM, "encode_prompt", autospec=True, side_effect=FastWAM.encode_prompt
    ) as encode_prompt:
        begun = time.monotonic()
        backend = BACKEND.load(BACKEND.options(**options), context)
        loaded_s = time.monotonic() - begun
        answer = {
            **ask_all(backend, platform),
            "sentences_encoded": [call.args[1] for call in encode_prompt.call_args_list],
            "by_prompt": ask_by_prompt(backend, noise(platform)),
            "meta": {"horizon": backend.meta.action_horizon, "steps": backend.meta.execute_steps},
            "provenance": backend.meta.provenance,
            "loaded_s": loaded_s,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    backend.close()
    return answer


def ask_all(backend: Backend, platform: str) -> dict[str, Any]:
    shown = noise(platform)
    first = ask(backend, shown)
    begun = time.monotonic()
    again = ask(backend, shown)
    asked_s = time.monotonic() - begun
    return {
        "first": first,
        "again": again,
        "other_chunk": ask(backend, shown, chunk=1),
        "other_words": ask(backend, replace(shown, instruction="close the drawer")),
        "other_frames": ask(backend, noise(platform, seed=1, proprio=shown)),
        "other_proprio": ask(backend, moved(shown)),
        "asked_s": asked_s,
    }


def ask_by_prompt(backend: Backend, shown: Observation) -> list[list[float]]:
    """The same, with the sentence given to FastWAM as a prompt, as its own evaluation gives it."""
    from fastwam.models.wan22.fastwam import FastWAM

    infer_action, sentence = FastWAM.infer_action, prompt_of(shown.instruction)

    def prompted(model: Any, **arguments: Any) -> Any:
        encoded = {"context": None, "context_mask": None}
        return infer_action(model, **{**arguments, **encoded, "prompt": sentence})

    with mock.patch.object(FastWAM, "infer_action", prompted):
        return ask(backend, shown)


def ask(backend: Backend, shown: Observation, *, chunk: int = 0) -> list[list[float]]:
    key = EpisodeKey(seed=7, suite="tiny", task=0, episode=0, chunk=chunk)
    request = PredictionInput(observation=shown, session="a", episode=key)
    answer = backend.predict(request)
    check_actions(answer, backend.meta)
    return answer.actions.tolist()  # type: ignore[no-any-return]


def noise(platform: str, *, seed: int = 0, proprio: Observation | None = None) -> Observation:
    """Frames of noise, at the size that neither FastWAM nor RLinf resizes for LIBERO."""
    rng = np.random.default_rng(seed)
    if platform == "robotwin":
        blank = robotwin_observation()
    else:
        frame = np.zeros((224, 224, 3), np.uint8)
        blank = libero_observation(frame, frame)
    images = {
        role: rng.integers(0, 256, image.shape, np.uint8) for role, image in blank.images.items()
    }
    return replace(blank, images=images, proprio=(proprio or blank).proprio)


def moved(shown: Observation) -> Observation:
    name, vector = next(iter(shown.proprio.items()))
    return replace(shown, proprio={**shown.proprio, name: vector + np.float32(0.2)})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
