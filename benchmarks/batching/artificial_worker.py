# SPDX-License-Identifier: Apache-2.0
"""A worker whose model sleeps: `python artificial_worker.py ENDPOINT FIXED_S EACH_S WAIT_MS|auto`.

Prints its endpoint, and serves until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.transport.channel import ServerChannel
from rpent_box.worker.backend import Backend, BackendSpec, LoadContext, PredictionInput
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.service import Service

META = ModelMeta(
    kind="wam",
    backend="artificial",
    checkpoint="none",
    control=control_spec(LIBERO_OSC_DELTA),
    camera_roles=("primary",),
    proprio_schema={"eef_position": 3},
    action_horizon=10,
    execute_steps=10,
    max_batch=16,
    batch_invariant=True,
)


class Sleeper:
    """An inference of b observations takes `fixed_s + each_s · b` seconds, and no processor."""

    def __init__(self, fixed_s: float, each_s: float) -> None:
        self.meta = META
        self._fixed_s = fixed_s
        self._each_s = each_s

    def predict(self, request: PredictionInput) -> ActionChunk:
        return self.predict_batch([request])[0]

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        time.sleep(self._fixed_s + self._each_s * len(requests))
        return [ActionChunk(actions=np.zeros((10, 7), np.float32)) for _ in requests]

    def reset(self, session: str) -> None:
        """Nothing to forget."""

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Nothing to free."""


class NoOptions(Struct, frozen=True, kw_only=True):
    """None are taken."""


def _load(options: NoOptions, context: LoadContext) -> Backend:
    raise NotImplementedError("the model is handed over ready-made")


SPEC = BackendSpec(
    name="artificial",
    kind="wam",
    summary="sleeps",
    options=NoOptions,
    load=_load,
    platforms=("nowhere",),
    action_spaces=(LIBERO_OSC_DELTA.id,),
    needs_checkpoint=False,
    needs_gpu=False,
)


def main() -> int:
    """Serve; return the exit code."""
    endpoint, fixed_s, each_s, wait_ms = sys.argv[1:]
    model = Sleeper(float(fixed_s), float(each_s))
    config = ServiceConfig(max_wait_ms=None if wait_ms == "auto" else float(wait_ms))
    with ServerChannel.bind(endpoint) as channel:
        service = Service(lambda say: model, SPEC, channel, config)
        signal.signal(signal.SIGTERM, lambda *_: service.drain("SIGTERM"))
        print(channel.endpoint, flush=True)
        return service.run()


if __name__ == "__main__":
    raise SystemExit(main())
