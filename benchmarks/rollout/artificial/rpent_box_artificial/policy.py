# SPDX-License-Identifier: Apache-2.0
"""A policy that replays a file of actions, and takes as long for it as it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from benchmarks.rollout.work import CHUNK, input_hash
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext, PredictionInput


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """Options of the replaying policy."""

    actions: Annotated[
        str, Meta(description="A .npy file of float32 [steps, 7].", extra={"path": True})
    ] = ""
    seen: Annotated[
        str, Meta(description="A file that gets one line per prediction: what it was asked.")
    ] = ""
    infer_s: Annotated[float, Meta(description="Seconds that an inference takes.")] = 0.0
    batch: Annotated[int, Meta(description="Observations that one inference takes.")] = 1


class ReplayPolicy:
    """Holds no model. An inference of several observations takes as long as one of one."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._actions = (
            np.load(options.actions, allow_pickle=False)
            if options.actions
            else np.zeros((CHUNK, 7), dtype=np.float32)
        )
        self.meta = ModelMeta(
            kind="wam",
            backend="replay",
            checkpoint="none",
            control=control_spec(LIBERO_OSC_DELTA),
            camera_roles=("primary", "wrist"),
            proprio_schema={"eef_position": 3, "gripper_qpos": 2},
            action_horizon=CHUNK,
            execute_steps=CHUNK,
            max_batch=options.batch,
            batch_invariant=True,
        )

    def predict(self, request: PredictionInput) -> ActionChunk:
        return self.predict_batch([request])[0]

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        if self._options.infer_s:
            time.sleep(self._options.infer_s)
        if self._options.seen:
            self._tell(requests)
        return [ActionChunk(actions=self._rows(request)) for request in requests]

    def reset(self, session: str) -> None:
        """It remembers nothing."""

    def drop(self, session: str) -> None:
        """It remembers nothing."""

    def close(self) -> None:
        """It holds nothing."""

    def _rows(self, request: PredictionInput) -> np.ndarray:
        first = CHUNK * request.episode.chunk if request.episode else 0
        return self._actions[np.arange(first, first + CHUNK) % len(self._actions)]

    def _tell(self, requests: Sequence[PredictionInput]) -> None:
        with Path(self._options.seen).open("a", encoding="utf-8") as file:
            for request in requests:
                key, shown = request.episode, request.observation
                if key is None:
                    continue  # the worker's own first prediction
                frames = [shown.images[role][::-1] for role in ("primary", "wrist")]
                told = {
                    "init_state": key.episode,
                    "chunk": key.chunk,
                    "bytes": sum(frame.nbytes for frame in frames),
                    "seen": input_hash(
                        *frames, shown.proprio["eef_position"], shown.proprio["gripper_qpos"]
                    ),
                }
                file.write(json.dumps(told) + "\n")


def load(options: ReplayOptions, context: LoadContext) -> Backend:
    return ReplayPolicy(options)


BACKEND = BackendSpec(
    name="replay",
    kind="wam",
    summary="Replays a file of actions, for benchmarks",
    options=ReplayOptions,
    load=load,
    platforms=("libero", "paced"),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    needs_checkpoint=False,
    needs_gpu=False,
)
