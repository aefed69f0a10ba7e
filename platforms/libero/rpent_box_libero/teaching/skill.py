# SPDX-License-Identifier: Apache-2.0
"""What every scripted expert can do.

A skill is a pure function of the simulator's state. It remembers no phase, so any state that a
student reaches has exactly one label, and a demonstration can begin anywhere.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.teaching.state import SceneState, Vector3

POSITION_SCALE_M = 0.05
"""Metres that an action of 1.0 asks for in one control step."""
ROTATION_SCALE_RAD = 0.5


class Skill(Protocol):
    """Acts in `libero.osc_pose.delta.v1`."""

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Return the action [7] for `state`, each value within [-1, 1]."""

    def progress(self, state: SceneState) -> float:
        """Return how much of the task is done, 0 to 1, from the steps that distances stand for."""

    def is_done(self, state: SceneState) -> bool:
        """Return whether what was asked for is reached: the scene's own goal, seen by the skill."""

    def is_lost(self, state: SceneState) -> bool:
        """Return whether the scene is beyond what this expert can mend."""

    def places(self, state: SceneState) -> tuple[Vector3, Vector3]:
        """Return the point to go to first and the point to bring things to: what a student tells
        in training as well, so that it learns to find them."""
