# SPDX-License-Identifier: Apache-2.0
"""What an expert knows of the simulator, all in the world frame, metres and radians."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector3 = NDArray[np.float64]
Rotation = NDArray[np.float64]
"""[3, 3], from the thing's own frame to the world's."""


@dataclass(frozen=True)
class Pose:
    position: Vector3
    rotation: Rotation


@dataclass(frozen=True)
class SceneState:
    """One instant. The arrays are the holder's own: the simulator moves on without them."""

    hand: Vector3
    """The point between the finger tips."""
    hand_rotation: Rotation
    """Of the body that carries the gripper."""
    aperture: float
    """Distance between the fingers: 0.08 open, 0 closed on nothing."""
    bodies: Mapping[str, Pose]
    """Body → pose, under the simulator's own names: `akita_black_bowl_1_main`, …"""
    sites: Mapping[str, Pose]
    """Site → pose: `wooden_cabinet_1_top_region`, …"""
    joints: Mapping[str, float]
    """Hinges and slides of the scene → position: `wooden_cabinet_1_top_level`, …"""

    def thing(self, name: str) -> Pose:
        """Return the pose of the object `name`, as in the scene's file: `plate_1`."""
        return self.bodies[f"{name}_main"]
