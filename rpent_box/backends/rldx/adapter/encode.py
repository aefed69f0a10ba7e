# SPDX-License-Identifier: Apache-2.0
"""What RoboCasa shows → the arrays that an RLDX server is sent."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.rldx.modality import Modality
from rpent_box.backends.rldx.names import CAMERAS, IMAGE_SIZE, PROPRIO, past_role
from rpent_box.contracts.observation import Observation
from rpent_box.errors import BadObservation

NativeObservation: TypeAlias = dict[str, Any]
"""{"video": {name: uint8 [1, T, 256, 256, 3]}, "state": {name: float32 [1, 1, D]},
"language": {name: [[text]]}}, the names being the checkpoint's own."""


def encode(observation: Observation, modality: Modality) -> NativeObservation:
    """Return a batch of one. The frames are copied: oldest first, the one of now last.

    Frames are upright already, as in the training data, and nothing is normalised: the server does
    that with the checkpoint's statistics. Raises `BadObservation` for frames of another size than
    the model was trained on.
    """
    return {
        "video": {camera: _frames(observation, camera, modality) for camera in modality.cameras},
        "state": {state: _vector(observation, state) for state in modality.states},
        "language": {modality.language: [[observation.instruction]]},
    }


def flattened(native: NativeObservation) -> NativeObservation:
    """Return the same for a server that was started with `--use-sim-policy-wrapper`.

    {"video.<name>": …, "state.<name>": …, "<language name>": [text]} (rldx/policy/rldx_policy.py,
    `RLDXSimPolicyWrapper`).
    """
    flat: NativeObservation = {}
    for part in ("video", "state"):
        flat |= {f"{part}.{name}": array for name, array in native[part].items()}
    return flat | {name: [text for [text] in texts] for name, texts in native["language"].items()}


def _frames(observation: Observation, camera: str, modality: Modality) -> NDArray[np.uint8]:
    role = CAMERAS[camera]
    frames = [_frame(observation, past_role(role, steps)) for steps in modality.steps_ago]
    return np.stack(frames)[None]


def _frame(observation: Observation, role: str) -> NDArray[np.uint8]:
    frame = observation.images[role]
    if frame.shape != (IMAGE_SIZE, IMAGE_SIZE, 3):
        raise BadObservation(
            f"camera {role} shows {list(frame.shape)}; rldx was trained on "
            f"[{IMAGE_SIZE}, {IMAGE_SIZE}, 3]",
            hint=f"Let the simulator draw frames of {IMAGE_SIZE} by {IMAGE_SIZE} pixels.",
        )
    return frame


def _vector(observation: Observation, state: str) -> NDArray[np.float32]:
    name, _ = PROPRIO[state]
    return observation.proprio[name][None, None]
