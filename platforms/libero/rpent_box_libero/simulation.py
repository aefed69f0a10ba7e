# SPDX-License-Identifier: Apache-2.0
"""Robosuite's simulation of one scene, with the same results for less work."""

from __future__ import annotations

from typing import Any

import mujoco
from robosuite.utils.binding_utils import MjSim

from rpent_box.contracts.observation import Image
from rpent_box_libero.drawing import draw_frame


class LeanSim(MjSim):  # type: ignore[misc]  # robosuite is untyped
    """Can be told that nothing has moved since it was measured, and draws what may show."""

    is_measured = False
    """Whether `forward` was called since positions, velocities or the model changed. One `step`
    makes use of it, and unsets it."""

    def step(self, with_udd: bool = True) -> None:  # noqa: FBT001, FBT002 - robosuite's signature
        """Integrate once."""
        model, data = self.model._model, self.data._data
        measured, self.is_measured = self.is_measured, False
        before_s = data.time
        if measured and before_s > 0:
            mujoco.mj_checkPos(model, data)
            mujoco.mj_checkVel(model, data)
            if data.time == before_s:
                mujoco.mj_step2(model, data)
                return
            # The physics has blown up, and MuJoCo has reset everything: nothing is measured.
        mujoco.mj_step(model, data)

    def render(
        self,
        width: int,
        height: int,
        *,
        camera_name: str,
        depth: bool = False,
        segmentation: bool = False,
    ) -> Image | tuple[Any, ...]:
        """Return a frame, upside down; with depth, or as segments, robosuite draws it."""
        if depth or segmentation:
            drawn: Image | tuple[Any, ...] = super().render(
                width, height, camera_name=camera_name, depth=depth, segmentation=segmentation
            )
            return drawn
        camera = self.model.camera_name2id(camera_name)
        return draw_frame(self._render_context_offscreen, camera, width, height)
