# SPDX-License-Identifier: Apache-2.0
"""A bowl put where there is no thing to aim at: on a stove, on a cabinet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rpent_box_libero.teaching.skills.bowl import FARTHEST_M, PutBowl
from rpent_box_libero.teaching.skills.ground import TABLE_M
from rpent_box_libero.teaching.skills.motion import across
from rpent_box_libero.teaching.state import SceneState, Vector3


@dataclass(frozen=True)
class PutBowlAt(PutBowl):
    """Puts `bowl` at the site `onto`, which does not move."""

    onto: str = "flat_stove_1_cook_region"
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """From the site to where the bowl's origin comes to rest, in the world frame."""
    near: tuple[float, float] = (0.07, 0.07)
    """Along x and y, how far from the site LIBERO still counts a bowl as on it."""

    def is_done(self, state: SceneState) -> bool:
        """Whether the bowl stands within the site."""
        off = np.abs(self._bowl(state) - state.sites[self.onto].position)[:2]
        return bool(np.all(off < self.near)) and abs(self._height(state)) < 0.006

    def is_lost(self, state: SceneState) -> bool:
        """Whether the bowl has tipped, fallen down, or is out of reach."""
        bowl = state.thing(self.bowl)
        tipped = bowl.rotation[2, 2] < 0.8
        fallen = bowl.position[2] < TABLE_M - 0.1
        away = across(bowl.position - state.bodies["robot0_base"].position) > FARTHEST_M
        return bool(tipped or fallen or away)

    def _pinches_goal(self, state: SceneState) -> bool:  # noqa: ARG002 - a site cannot be taken
        return False

    def _goal(self, state: SceneState) -> Vector3:
        return state.sites[self.onto].position + self.shift
