# SPDX-License-Identifier: Apache-2.0
"""Small finished parts for tests of rldx."""

from __future__ import annotations

import numpy as np
from rldx_native_server import ACTION, HORIZON, LANGUAGE, STATE, VIDEO

from rpent_box.backends.rldx.modality import Modality
from rpent_box.contracts.observation import Observation

PAST = (6, 4, 2, 0)


def a_modality(*, steps_ago=(0,), cameras=VIDEO, horizon=HORIZON, actions=tuple(ACTION)):
    return Modality(
        cameras=tuple(cameras),
        steps_ago=steps_ago,
        states=tuple(STATE),
        language=LANGUAGE,
        actions=tuple(actions),
        horizon=horizon,
    )


def noise(modality, seed=0, *, size=(256, 256)):
    """Return an observation of random frames and vectors, with all roles of `modality`."""
    rng = np.random.default_rng(seed)
    return Observation(
        images={role: rng.integers(0, 256, (*size, 3), np.uint8) for role in modality.camera_roles},
        proprio={
            name: rng.standard_normal(length).astype(np.float32)
            for name, length in modality.proprio_schema.items()
        },
        instruction="open the drawer",
    )


def answer(horizon=HORIZON, seed=0, *, prefix="", dtype=np.float32):
    """Return a sound answer of random parts."""
    rng = np.random.default_rng(seed)
    return {
        f"{prefix}{name}": rng.random((1, horizon, width)).astype(dtype)
        for name, width in ACTION.items()
    }
