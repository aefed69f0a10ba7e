# SPDX-License-Identifier: Apache-2.0
"""Models that do what the instruction says, so that a test reads as what it tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext, PredictionInput

CONTROL = control_spec(LIBERO_OSC_DELTA)

META = ModelMeta(
    kind="wam",
    backend="fake",
    checkpoint="built-in",
    control=CONTROL,
    camera_roles=("primary", "wrist"),
    proprio_schema={"eef_position": 3},
    action_horizon=4,
    execute_steps=3,
    batch_invariant=True,
)

PLATFORM = PlatformMeta(
    name="fakeland",
    controls=(CONTROL,),
    camera_roles=("primary", "wrist"),
    image_size=(32, 48),
    proprio_schema={"eef_position": 3, "gripper_qpos": 2},
)


SPOILT: dict[str, dict[str, Any]] = {
    "future": {"future_observation": {"primary": [[0]]}},
    "empty-future": {"future_observation": {"primary": np.zeros((0, 4, 3), np.uint8)}},
    "value": {"value": "high"},
    "time": {"timings_s": {"infer": float("nan")}},
    "times": {"timings_s": None},
    "number": {"metadata": {"seed": 1 << 80}},
    "key": {"metadata": {1: "one"}},
    "metadata": {"metadata": None},
}
"""What to change in a chunk so that it cannot be sent."""


class NoOptions(Struct, frozen=True, kw_only=True):
    """A fake takes none."""


def no_load(options: NoOptions, context: LoadContext) -> Backend:
    raise NotImplementedError("tests hand the model over themselves")


SPEC = BackendSpec(
    name="fake",
    kind="wam",
    summary="Does what the instruction says",
    options=NoOptions,
    load=no_load,
    platforms=("fakeland",),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    needs_checkpoint=False,
    needs_gpu=False,
)


def observation(instruction: str = "go", *, level: int = 7, size: tuple[int, int] = (32, 48)):
    """Frames whose every byte is `level` (primary) and `level` + 1 (wrist)."""
    return Observation(
        images={
            "primary": np.full((*size, 3), level, np.uint8),
            "wrist": np.full((*size, 3), level + 1, np.uint8),
        },
        proprio={
            "eef_position": np.array([0.1, 0.2, 0.3], np.float32),
            "gripper_qpos": np.array([0.04, -0.04], np.float32),
        },
        instruction=instruction,
    )


class FakeModel:
    """Column 0 of its actions: how often the session has predicted since its reset.

    Column 1 is the primary frame's mean, column 2 the wrist's, columns 3 to 5 the proprio.
    """

    def __init__(self, meta: ModelMeta = META, *, warm: bool = False) -> None:
        self.meta = meta
        self.seen: list[PredictionInput] = []
        self.calls: list[tuple[str, str]] = []
        """(what, session), in order."""
        self.counts: dict[str, int] = {}
        self.threads: set[int] = set()
        self.closed = 0
        self.started = threading.Event()
        """Set when a prediction has begun."""
        self.go_on = threading.Event()
        """What `wait` waits for."""
        self._warm = warm

    def predict(self, request: PredictionInput) -> ActionChunk:
        if request.session == "warm-up":
            return ActionChunk(actions=np.zeros((self.meta.execute_steps, 7), np.float32))
        self.threads.add(threading.get_ident())
        self.calls.append(("predict", request.session))
        self.seen.append(request)
        self.started.set()
        self.counts[request.session] = self.counts.get(request.session, 0) + 1
        return self._obey(request, self._actions(request))

    def reset(self, session: str) -> None:
        if session != "warm-up":
            self.calls.append(("reset", session))
        self.counts[session] = 0

    def drop(self, session: str) -> None:
        if session != "warm-up":
            self.calls.append(("drop", session))
        self.counts.pop(session, None)

    def close(self) -> None:
        self.closed += 1

    def _actions(self, request: PredictionInput) -> np.ndarray:
        images = request.observation.images
        row = np.zeros(7, np.float32)
        row[0] = self.counts[request.session]
        row[1] = images["primary"].mean()
        row[2] = images["wrist"].mean()
        row[3:6] = request.observation.proprio["eef_position"]
        return np.tile(row, (self.meta.execute_steps, 1))

    def _obey(self, request: PredictionInput, actions: np.ndarray) -> ActionChunk:
        order, _, argument = request.observation.instruction.partition(" ")
        self._pass_time(order, argument)
        match order:
            case "raise":
                raise RuntimeError("the fake model raised on request")
            case "nothing":
                return None  # type: ignore[return-value]
            case "odd-metadata":
                return ActionChunk(actions=actions, metadata={"seed": np.float32(1)})
            case "spoilt":
                return replace(ActionChunk(actions=actions), **SPOILT[argument])
            case "exit":
                raise SystemExit("a library has called exit()")
            case "die":
                raise GeneratorExit("no error that anybody catches")
            case "future":
                side = int(argument)
                future = {"primary": np.full((side, side, 3), 9, np.uint8)}
                return ActionChunk(actions=actions, future_observation=future, value=0.5)
        return ActionChunk(actions=_spoilt(order, actions))

    def _pass_time(self, order: str, argument: str) -> None:
        match order:
            case "sleep":
                time.sleep(float(argument))
            case "spin":
                until = time.monotonic() + 60.0
                while not self.go_on.is_set() and time.monotonic() < until:
                    pass
            case "wait":
                self.go_on.wait(60.0)


def _spoilt(order: str, actions: np.ndarray) -> np.ndarray:
    match order:
        case "nan":
            actions[1, 6] = np.nan
        case "shape":
            return actions[:, :6]
        case "length":
            return actions[:-1]
        case "double":
            return actions.astype(np.float64)
    return actions


class BatchingModel(FakeModel):
    """Also takes several at once; notes how many each time."""

    def __init__(self, meta: ModelMeta = replace(META, max_batch=4)) -> None:  # noqa: B008
        super().__init__(meta)
        self.batches: list[int] = []

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        self.batches.append(len(requests))
        return [self.predict(request) for request in requests]


STATEFUL = replace(META, uses_sessions=True)
