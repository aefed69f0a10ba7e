# SPDX-License-Identifier: Apache-2.0
"""A camera's frame, the same to the byte as robosuite's, without what cannot show in it.

MuJoCo draws every geom, wherever the camera looks, and where something in the scene reflects, draws
them all again. In software the time goes into their 300 000 triangles. So those whose box lies out
of view are left out, unless the mirror may show them, and so is the second drawing where the mirror
is out of view itself.

Where a light casts shadows, what is out of view counts too, and everything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image
from rpent_box_libero.view import Boxes, Mirror, View

_OPAQUE = 0.995
"""MuJoCo blends what has less alpha, and lets only the rest reflect."""
_REFLECTION = int(mujoco.mjtRndFlag.mjRND_REFLECTION)
_BOX, _PLANE = int(mujoco.mjtGeom.mjGEOM_BOX), int(mujoco.mjtGeom.mjGEOM_PLANE)
_NOTHING = int(mujoco.mjtGeom.mjGEOM_NONE)
_MARGIN_PIXELS = 2.0


def draw_frame(context: Any, camera: int, width: int, height: int) -> Image:  # noqa: ANN401
    """Draw what `camera` sees now: uint8 RGB [height, width, 3], upside down as OpenGL has it.

    `context` is robosuite's, and is left as its own drawing would.
    """
    if width > context.con.offWidth or height > context.con.offHeight:
        settings = context.model.vis.global_
        context.update_offscreen_size(
            max(width, settings.offwidth), max(height, settings.offheight)
        )
    context.cam.type, context.cam.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
    scene = context.scn
    mujoco.mjv_updateScene(
        context.model._model,
        context.data._data,
        context.vopt,
        context.pert,
        context.cam,
        mujoco.mjtCatBit.mjCAT_ALL,
        scene,
    )
    geoms = scene.geoms[: scene.ngeom]
    reflecting = _reflecting(geoms)
    casts_shadows = any(light.castshadow for light in scene.lights[: scene.nlight])
    if casts_shadows or (reflecting is not None and geoms[reflecting].type == _PLANE):
        return _render(context, width, height)
    view = View.of(scene.camera, width / height)
    boxes = _boxes(context, geoms)
    shown = view.may_show(boxes)
    mirrored: View | None = None
    if reflecting is not None:
        shown[reflecting] = True  # left out, it would make another geom the one that reflects
        mirror = _mirror(geoms[reflecting])
        pixel = (view.ends[1] - view.ends[0]) / height
        mirrored = view.through(mirror, margin=_MARGIN_PIXELS * pixel)
        if mirrored is not None:
            shown |= mirror.may_show(boxes) & mirrored.may_show(mirror.images(boxes))
    with _only(geoms, shown), _reflection(scene, wanted=mirrored is not None):
        return _render(context, width, height)


def _render(context: Any, width: int, height: int) -> Image:  # noqa: ANN401
    viewport = mujoco.MjrRect(0, 0, width, height)
    mujoco.mjr_render(viewport, context.scn, context.con)
    frame: Image = np.empty((height, width, 3), dtype=np.uint8)
    mujoco.mjr_readPixels(frame, None, viewport, context.con)
    return frame


def _boxes(context: Any, geoms: Sequence[Any]) -> Boxes:  # noqa: ANN401
    """Return a box around each of `geoms`; without end where none is known."""
    model, data = context.model._model, context.data._data
    ids = np.array(
        [geom.objid if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM else -1 for geom in geoms]
    )
    boxes = model.geom_aabb[ids]
    halves = boxes[:, 3:].copy()
    halves[(ids < 0) | (model.geom_type[ids] == _PLANE)] = np.inf
    turns = data.geom_xmat[ids].reshape(-1, 3, 3)
    return Boxes.around(data.geom_xpos[ids], turns, boxes[:, :3], halves)


def _reflecting(geoms: Sequence[Any]) -> int | None:
    """Return the index of what MuJoCo lets reflect: the first geom that can, and no other."""
    for index, geom in enumerate(geoms):
        if geom.reflectance > 0 and geom.type in (_BOX, _PLANE) and geom.rgba[3] >= _OPAQUE:
            return index
    return None


def _mirror(box: Any) -> Mirror:  # noqa: ANN401
    axes = np.array(box.mat, dtype=np.float64).reshape(3, 3).T
    half = np.array(box.size, dtype=np.float64)
    middle = np.array(box.pos, dtype=np.float64) + half[2] * axes[2]
    along, across = half[0] * axes[0], half[1] * axes[1]
    corners = [middle + a * along + b * across for a in (-1, 1) for b in (-1, 1)]
    return Mirror(np.array(corners), axes[2])


@contextmanager
def _only(geoms: Sequence[Any], shown: NDArray[np.bool_]) -> Iterator[None]:
    hidden = [geom for geom, is_shown in zip(geoms, shown, strict=True) if not is_shown]
    types = [geom.type for geom in hidden]
    for geom in hidden:
        geom.type = _NOTHING
    try:
        yield
    finally:
        for geom, kind in zip(hidden, types, strict=True):
            geom.type = kind


@contextmanager
def _reflection(scene: Any, *, wanted: bool) -> Iterator[None]:  # noqa: ANN401
    before = scene.flags[_REFLECTION]
    scene.flags[_REFLECTION] = before and wanted
    try:
        yield
    finally:
        scene.flags[_REFLECTION] = before
