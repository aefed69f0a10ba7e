# SPDX-License-Identifier: Apache-2.0
"""A policy that walks the toy to its goal, or misbehaves on request. Pure numpy."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from rpent_box.backends.checkpoint_files import find_file, read_json
from rpent_box.contracts.checkpoint import Inspection
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadOption
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext, PredictionInput
from rpent_box_toy.platform import CONTROL, STEP

EXECUTE_STEPS = 4

META = ModelMeta(
    kind="vla",
    backend="toy",
    checkpoint="built-in",
    control=CONTROL,
    camera_roles=("primary", "wrist"),
    proprio_schema={"position": 2, "goal": 2},
    action_horizon=6,
    execute_steps=EXECUTE_STEPS,
    provenance={"revision": "toy-1"},
)

MISMATCHES = {
    "none": META,
    "control": replace(META, control=replace(CONTROL, action_space="toy.other.v1")),
    "cameras": replace(META, camera_roles=("primary", "head")),
    "proprio": replace(META, proprio_schema={"position": 3}),
    "chunk": replace(META, execute_steps=7),
}


class ToyBackendOptions(Struct, frozen=True, kw_only=True):
    """Options of the toy backend."""

    mismatch: Annotated[
        Literal["none", "control", "cameras", "proprio", "chunk"],
        Meta(description="What of its meta does not fit."),
    ] = "none"
    misbehave: Annotated[
        Literal["no", "nan", "shape", "length", "raise", "die", "hang", "load"],
        Meta(description="What goes wrong."),
    ] = "no"
    at_chunk: Annotated[int, Meta(description="The chunk of an episode where it does.")] = 0
    at_init_state: Annotated[int, Meta(description="The init state where it does.")] = 0
    noise: Annotated[float, Meta(description="Size of the seeded noise on actions.")] = 0.0
    future_side: Annotated[
        int, Meta(description="Pixels a side of a future frame; 0: it foresees nothing.")
    ] = 0
    infer_s: Annotated[float, Meta(description="Seconds that a prediction takes.")] = 0.0
    load_delay_s: Annotated[float, Meta(description="Seconds that loading takes.")] = 0.0


class ToyBackend:
    """The loaded toy policy."""

    def __init__(self, options: ToyBackendOptions) -> None:
        self._options = options
        self.meta = replace(
            MISMATCHES[options.mismatch],
            returns_future_observation=options.future_side > 0,
            returns_value=options.future_side > 0,
        )

    def predict(self, request: PredictionInput) -> ActionChunk:
        if request.options:
            raise BadOption(f"toy knows no option {', '.join(request.options)}")
        time.sleep(self._options.infer_s)
        proprio = request.observation.proprio
        offset = (proprio["goal"] - proprio["position"]) / STEP
        rows = []
        for _ in range(EXECUTE_STEPS):
            action = np.clip(offset, -1, 1)
            rows.append(action)
            offset = offset - action
        actions = np.stack(rows).astype(np.float32) + self._noise(request)
        return ActionChunk(
            actions=self._spoil(actions, request),
            future_observation=self._future(request),
            value=float(_chunk(request)) if self._options.future_side else None,
            timings_s={"infer": 1e-4},
        )

    def reset(self, session: str) -> None:
        """It remembers nothing."""

    def drop(self, session: str) -> None:
        """It remembers nothing."""

    def close(self) -> None:
        """It holds nothing."""

    def _future(self, request: PredictionInput) -> dict[str, np.ndarray] | None:
        """A frame whose every byte is the chunk's number."""
        side = self._options.future_side
        return {"primary": np.full((side, side, 3), _chunk(request), np.uint8)} if side else None

    def _noise(self, request: PredictionInput) -> np.ndarray:
        key = request.episode
        entropy = [0] if key is None else [key.seed, key.task, key.episode, key.chunk]
        noise = np.random.default_rng(entropy).normal(size=(EXECUTE_STEPS, 2))
        return (self._options.noise * noise).astype(np.float32)

    def _spoil(self, actions: np.ndarray, request: PredictionInput) -> np.ndarray:
        key = request.episode
        moment = (self._options.at_init_state, self._options.at_chunk)
        if key is None or (key.episode, key.chunk) != moment:
            return actions
        match self._options.misbehave:
            case "nan":
                actions[1, 0] = np.nan
            case "shape":
                return np.zeros((EXECUTE_STEPS, 3), dtype=np.float32)
            case "length":
                return actions[:-1]
            case "raise":
                raise RuntimeError("the toy model raised")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(3600)
        return actions


def _chunk(request: PredictionInput) -> int:
    return 0 if request.episode is None else request.episode.chunk


def load(options: ToyBackendOptions, context: LoadContext) -> Backend:
    context.say("reading toy weights")
    time.sleep(options.load_delay_s)
    if options.misbehave == "load":
        raise RuntimeError("the toy weights are torn")
    return ToyBackend(options)


def inspect(options: ToyBackendOptions, path: Path, platform: str) -> Inspection:
    """A toy's checkpoint is a folder with `toy.json`, which may name its suites."""
    weights = find_file(path, "toy.json", role="weights")
    suites = read_json(weights.path, role="weights").get("suites", ())
    return Inspection(files=(weights,), facts={"noise": str(options.noise)}, suites=tuple(suites))


BACKEND = BackendSpec(
    name="toy",
    kind="vla",
    summary="Walks the toy to its goal",
    options=ToyBackendOptions,
    load=load,
    inspect=inspect,
    platforms=("toy",),
    action_spaces=(CONTROL.action_space,),
    needs_checkpoint=False,
    needs_gpu=False,
)
