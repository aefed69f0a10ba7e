# SPDX-License-Identifier: Apache-2.0
"""Between messages and what a backend sees: an observation out of a request, a reply of a chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.checks import check_observation
from rpent_box.contracts.messages import NO_PAYLOAD, Payload, Predict, Predicted
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.errors import IncompatibleWorker


def require_same_control(body: Predict, meta: ModelMeta) -> None:
    """Raise `IncompatibleWorker` when the client moves another robot, or in another space."""
    control = meta.control
    if (body.embodiment, body.action_space) == (control.embodiment, control.action_space):
        return
    raise IncompatibleWorker(
        f"the client moves {body.embodiment} in {body.action_space}, but {meta.backend} "
        f"({meta.checkpoint}) moves {control.embodiment} in {control.action_space}",
        hint=f"Backends that fit: rpent-box list --space {body.action_space}",
    )


def observation_from(
    body: Predict, images: Mapping[str, NDArray[Any]], meta: ModelMeta
) -> Observation:
    """Return the checked observation: what `meta` declares, and nothing else that was sent.

    The images stay views of the memory they came in. Raises `BadObservation`.
    """
    observation = Observation(
        images={role: images[role] for role in meta.camera_roles if role in images},
        proprio={
            name: np.asarray(body.proprio[name], dtype=np.float32)
            for name in meta.proprio_schema
            if name in body.proprio
        },
        instruction=body.instruction,
    )
    check_observation(observation, meta)
    return observation


def predicted_from(chunk: ActionChunk, payload: Payload = NO_PAYLOAD) -> Predicted:
    """Return the reply of `chunk`; `payload` says where its future observation is."""
    steps, action_dim = chunk.actions.shape
    return Predicted(
        actions=np.ascontiguousarray(chunk.actions, dtype="<f4").tobytes(),
        shape=(steps, action_dim),
        value=None if chunk.value is None else float(chunk.value),
        metadata=chunk.metadata,
        timings_s={stage: float(seconds) for stage, seconds in chunk.timings_s.items()},
        payload=payload,
    )
