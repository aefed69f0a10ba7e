# SPDX-License-Identifier: Apache-2.0
"""The real rldx backend in front of a stand-in for RLDX's server."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from types import SimpleNamespace

import msgspec
import numpy as np
from rldx_native_server import (
    ACTION,
    CountingModel,
    NativeServer,
    modality,
    native_server,
)

from rpent_box.backends.rldx.loading import load
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import LoadContext, PredictionInput
from rpent_box.worker.warm_up import blank_observation


class Hashing(CountingModel):
    """Its actions depend on every byte that it is shown, on its memory, and on nothing else."""

    def __init__(self, modalities, spoil):
        super().__init__(modalities)
        self._spoil = spoil

    def _answer(self, observation, options, count):
        horizon = len(self.modalities["action"][0])
        parts = super()._answer(observation, options, count)
        arrays = [
            *(observation["video"][name] for name in self.modalities["video"][1]),
            *(observation["state"][name] for name in self.modalities["state"][1]),
        ]
        words = [*(array.tobytes() for array in arrays), repr(observation["language"]).encode()]
        seen = [*words, repr((count, options.get("noise_seed"))).encode()]
        for column in range(3):
            mark = zlib.crc32(b"|".join([bytes([column]), *seen])) / 2**32
            parts["end_effector_position"][0, :, column] = mark + np.arange(horizon) / 100
        return {name: self._spoil(parts[name][0])[None] for name in ACTION}


@contextmanager
def fake_backend(platform, *, spoil=lambda raw: raw):
    """Yield a backend whose server is a stand-in with a memory like upstream's."""
    server = NativeServer(Hashing(modality(), lambda raw: spoil(raw)))
    try:
        with loaded(server, platform=platform) as backend:
            # As with a server of ours, which takes a seed.
            backend._serving = msgspec.structs.replace(backend._serving, seed=1)
            yield backend
    finally:
        server.close()


@contextmanager
def loaded(server, *, platform="robocasa", **options):
    """Yield the backend that borrows `server`."""
    given = {"timeout_s": 30.0, "start_timeout_s": 30.0, **options}
    backend = load(RldxOptions(service=server.endpoint, **given), context(platform))
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def served(*, options=None, **modalities):
    """Yield a counting server and a backend that borrows it."""
    with native_server(**modalities) as server, loaded(server, **(options or {})) as backend:
        server.requests.clear()
        server.model.seen.clear()
        yield SimpleNamespace(server=server, model=server.model, backend=backend)


def context(platform="robocasa", checkpoint=None):
    return LoadContext(platform=platform, checkpoint=checkpoint, threads=1, say=lambda _: None)


def observation(meta, level=7, *, instruction="open the drawer", gripper=0.0):
    """Frames of one grey per camera: `level`, `level` + 1, … in the order of the roles."""
    blank = blank_observation(meta)
    images = {
        role: np.full(image.shape, level + place, np.uint8)
        for place, (role, image) in enumerate(blank.images.items())
    }
    proprio = {**blank.proprio, "gripper_qpos": np.array([gripper, -gripper], np.float32)}
    return Observation(images=images, proprio=proprio, instruction=instruction)


def asked(backend, level=7, *, session="mine", options=None, episode=None, **shown):
    """Return the prediction that asks `backend` about such an observation."""
    return PredictionInput(
        observation=observation(backend.meta, level, **shown),
        session=session,
        options=options or {},
        episode=episode,
    )
