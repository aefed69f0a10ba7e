# SPDX-License-Identifier: Apache-2.0
"""The first prediction, on a blank scene: it compiles kernels and fills caches."""

from __future__ import annotations

import time

import msgspec
import numpy as np

from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import Observation, Vector
from rpent_box.worker.backend import Backend, InstructedBackend, PredictionInput

_SESSION = "warm-up"
_IMAGE_SHAPE = (256, 256, 3)


def blank_observation(
    meta: ModelMeta, image_shape: tuple[int, int, int] = _IMAGE_SHAPE
) -> Observation:
    """Return black frames and a robot at rest, as `meta` declares them."""
    return Observation(
        images={role: np.zeros(image_shape, np.uint8) for role in meta.camera_roles},
        proprio={name: _at_rest(name, length) for name, length in meta.proprio_schema.items()},
        instruction="stay where you are",
    )


def warm_up(backend: Backend, meta: ModelMeta) -> float:
    """Predict once on a blank scene; return the seconds that it took. Raises what the model does.

    The session it used is dropped again.
    """
    began = time.monotonic()
    shown = blank_observation(meta)
    if isinstance(backend, InstructedBackend):
        shown = msgspec.structs.replace(shown, instruction=backend.known_instruction)
    request = PredictionInput(observation=shown, session=_SESSION)
    try:
        backend.reset(_SESSION)
        check_actions(backend.predict(request), meta)
    finally:
        backend.drop(_SESSION)
    return time.monotonic() - began


def _at_rest(name: str, length: int) -> Vector:
    """Zeros, except that a quaternion of zeros is no rotation."""
    vector = np.zeros(length, np.float32)
    if name.endswith("quaternion_xyzw"):
        vector[-1] = 1.0
    elif name.endswith("quaternion_wxyz"):
        vector[0] = 1.0
    return vector
