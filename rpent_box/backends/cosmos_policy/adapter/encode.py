# SPDX-License-Identifier: Apache-2.0
"""From a LIBERO observation to the one that Cosmos Policy's own `get_action` takes.

JPEG, resizing, cropping and scaling are `get_action`'s own: it is given pixels and measurements as
they are. (cosmos_policy/experiments/robot/libero/run_libero_eval.py, `prepare_observation`.)
"""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions
from rpent_box.contracts.observation import Image, Observation, Vector
from rpent_box.errors import BadObservation

CAMERA_ROLES = ("primary", "wrist")
PROPRIO_SCHEMA = {"gripper_qpos": 2, "eef_position": 3, "eef_quaternion_xyzw": 4}
"""In the model's order, which differs from that of other models on the same robot."""


class NativeObservation(TypedDict):
    """What `get_action` reads."""

    primary_image: Image
    """uint8 RGB [size, size, 3], upright: LIBERO's raw frame with its rows reversed."""
    wrist_image: Image
    """As `primary_image`, and of the same size."""
    proprio: NDArray[np.float64]
    """[9], unnormalised: gripper 2, position 3, quaternion xyzw 4."""


def encode_libero(observation: Observation, options: CosmosPolicyOptions) -> NativeObservation:
    """Return what `get_action` reads. Raises `BadObservation` for frames that it would distort."""
    primary, wrist = (observation.images[role] for role in CAMERA_ROLES)
    _require_square(primary, wrist)
    return NativeObservation(
        primary_image=primary, wrist_image=wrist, proprio=join_proprio(observation.proprio)
    )


def join_proprio(proprio: dict[str, Vector]) -> NDArray[np.float64]:
    """Return float64 [9]. In float32 the scaling that follows would round differently."""
    return np.concatenate([proprio[name] for name in PROPRIO_SCHEMA]).astype(np.float64)


def _require_square(primary: NDArray[Any], wrist: NDArray[Any]) -> None:
    """Refuse what would be squashed to 224x224, or could not be stacked."""
    (height, width), other = primary.shape[:2], wrist.shape[:2]
    if height != width or other != (height, width):
        raise BadObservation(
            "cosmos-policy wants square frames of one size from both cameras, got primary "
            f"{height}x{width}, wrist {other[0]}x{other[1]}",
            hint="It was trained on LIBERO's 256x256.",
        )
