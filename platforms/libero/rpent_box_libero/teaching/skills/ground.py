# SPDX-License-Identifier: Apache-2.0
"""How high a hand or what hangs from it must be, place by place, to clear what stands below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rpent_box_libero.teaching.skills.motion import across, ramp
from rpent_box_libero.teaching.state import SceneState, Vector3

TABLE_M = 0.90
SLOPE_M = 0.06
"""Outside a thing's reach its height fades away within this distance."""


@dataclass(frozen=True)
class Mound:
    """Something round. A bowl on top of it has its origin `height` above the body's."""

    body: str
    height: float
    reach: float
    """Horizontal distance from the body's origin within which a carried bowl could touch it."""

    def rises(self, state: SceneState, place: Vector3) -> float:
        """Return the height of its top below `place`; the table's away from it."""
        if self.body not in state.bodies:
            return TABLE_M
        position = state.bodies[self.body].position
        near = 1.0 - ramp(across(place - position), self.reach, self.reach + SLOPE_M)
        return TABLE_M + near * float(position[2] + self.height - TABLE_M)


@dataclass(frozen=True)
class Cabinet:
    """LIBERO's wooden cabinet. Its drawers slide out along its own -y."""

    body: str = "wooden_cabinet_1_main"
    drawers: tuple[str, ...] = ("wooden_cabinet_1_top_level",)
    """Joints that are negative when open (metres). The lower ones are closed where bowls are put
    on plates."""
    height: float = 0.222
    half_width: float = 0.128
    half_depth: float = 0.095
    margin: float = 0.08
    """For the hand and what hangs from it."""

    def rises(self, state: SceneState, place: Vector3) -> float:
        """Return the height of its top below `place`; the table's away from it."""
        if self.body not in state.bodies:
            return TABLE_M
        pose = state.bodies[self.body]
        x, y, _ = pose.rotation.T @ (place - pose.position)
        opened = max(0.0, -min(state.joints[drawer] for drawer in self.drawers))
        beside = max(abs(x) - self.half_width, 0.0)
        before = max(y - self.half_depth, -y - self.half_depth - opened, 0.0)
        outside = float(np.hypot(beside, before))
        near = 1.0 - ramp(outside, self.margin, self.margin + SLOPE_M)
        return TABLE_M + near * float(pose.position[2] + self.height - TABLE_M)


@dataclass(frozen=True)
class Ground:
    """What stands about on LIBERO's kitchen table."""

    mounds: tuple[Mound, ...] = (
        Mound("glazed_rim_porcelain_ramekin_1_main", height=0.035, reach=0.11),
        Mound("cookies_1_main", height=0.008, reach=0.11),
        Mound("flat_stove_1_burner", height=0.020, reach=0.17),
        Mound("akita_black_bowl_1_main", height=0.045, reach=0.12),
        Mound("akita_black_bowl_2_main", height=0.045, reach=0.12),
    )
    cabinet: Cabinet = Cabinet()

    def height_below(self, state: SceneState, place: Vector3, *, but: str) -> float:
        """Return the origin's height (metres) of a bowl that stands at `place` on what is there.

        The thing called `but` is what is carried, or gone for: it does not count.
        """
        mounds = (mound for mound in self.mounds if mound.body != f"{but}_main")
        return max(
            self.cabinet.rises(state, place),
            max((mound.rises(state, place) for mound in mounds), default=TABLE_M),
        )
