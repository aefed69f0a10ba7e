# SPDX-License-Identifier: Apache-2.0
"""What a camera, or a mirror before it, may have in view. Geometry alone, without a simulator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_MARGIN = 1.01
_MARGIN_M = 1e-3
"""Boxes count as this much larger, for what rounding does."""


class Boxes(NamedTuple):
    """Boxes in space, one around each thing."""

    middles: Numbers
    """[n, 3], metres in the world."""
    axes: Numbers
    """[n, 3, 3]: each box's own three axes, of unit length, as rows."""
    halves: Numbers
    """[n, 3], metres from the middle along each axis; infinite where the size is not known."""

    @classmethod
    def around(cls, places: Numbers, turns: Numbers, middles: Numbers, halves: Numbers) -> Boxes:
        """Return boxes given in frames at `places` [n, 3], turned by matrices [n, 3, 3]."""
        return cls(
            middles=places + np.einsum("nij,nj->ni", turns, middles),
            axes=np.transpose(turns, (0, 2, 1)),
            halves=halves * _MARGIN + _MARGIN_M,
        )

    def reach_over(self, planes: Numbers, point: Numbers) -> NDArray[np.bool_]:
        """Return which boxes [n] reach over all of `planes`: normals [m, 3], each through `point`.

        Those that do not lie wholly on the wrong side of one of them.
        """
        over = (self.middles - point) @ planes.T
        along = np.abs(np.einsum("nij,pj->npi", self.axes, planes))
        endless = np.asarray(np.isinf(self.halves).any(axis=1))
        reach = np.einsum("npi,ni->np", along, np.where(endless[:, None], 0.0, self.halves))
        reaching: NDArray[np.bool_] = endless | np.all(over + reach >= 0, axis=1)
        return reaching


class Mirror(NamedTuple):
    """A flat rectangle that reflects to one side."""

    corners: Numbers
    """[4, 3], metres in the world."""
    normal: Numbers
    """[3], of unit length, to the side that reflects."""

    def faces(self, eye: Numbers) -> bool:
        """Return whether `eye` [3] is on the side that reflects."""
        return bool((eye - self.corners[0]) @ self.normal >= 0)

    def images(self, boxes: Boxes) -> Boxes:
        """Return where `boxes` seem to be."""
        above = (boxes.middles - self.corners[0]) @ self.normal
        along = boxes.axes @ self.normal
        return Boxes(
            middles=boxes.middles - 2 * above[:, None] * self.normal,
            axes=boxes.axes - 2 * along[:, :, None] * self.normal,
            halves=boxes.halves,
        )

    def may_show(self, boxes: Boxes) -> NDArray[np.bool_]:
        """Return which boxes reach to the side that reflects."""
        return boxes.reach_over(self.normal[None], self.corners[0])


class View(NamedTuple):
    """A pyramid: all that lies before an eye and within four planes through it."""

    eye: Numbers
    """[3], metres in the world."""
    right: Numbers
    up: Numbers
    forward: Numbers
    """[3] each, of unit length and orthogonal."""
    sides: tuple[float, float]
    """Where the left and the right plane are, in metres to the right per metre ahead."""
    ends: tuple[float, float]
    """The same upwards of the lower and the upper one."""
    near: float
    """Metres ahead; nothing nearer is drawn."""

    @classmethod
    def of(cls, eyes: Any, aspect: float) -> View:  # noqa: ANN401 - mujoco is untyped
        """Return the view between `eyes`, the two OpenGL cameras of a MuJoCo scene.

        `aspect` is the picture's width per height.
        """
        eye, forward, up = (
            np.mean([np.asarray(getattr(one, name), dtype=np.float64) for one in eyes], axis=0)
            for name in ("pos", "forward", "up")
        )
        forward /= np.linalg.norm(forward)
        up -= (up @ forward) * forward
        up /= np.linalg.norm(up)
        near, bottom, top, center = (
            float(np.mean([getattr(one, f"frustum_{name}") for one in eyes]))
            for name in ("near", "bottom", "top", "center")
        )
        half = 0.5 * (top - bottom) * aspect
        return cls(
            eye=eye,
            right=np.cross(forward, up),
            up=up,
            forward=forward,
            sides=((center - half) / near, (center + half) / near),
            ends=(bottom / near, top / near),
            near=near,
        )

    def may_show(self, boxes: Boxes) -> NDArray[np.bool_]:
        """Return which boxes [n] may be in view; all that are, are among them."""
        (left, right), (low, high) = self.sides, self.ends
        planes = np.array(
            [
                self.forward,
                self.right - left * self.forward,
                right * self.forward - self.right,
                self.up - low * self.forward,
                high * self.forward - self.up,
            ]
        )
        return boxes.reach_over(planes, self.eye)

    def through(self, mirror: Mirror, margin: float) -> View | None:
        """Return the part of the view that holds `mirror`; None: it is out of view.

        `margin` is added on all sides, in metres per metre ahead.
        """
        offsets = mirror.corners - self.eye
        ahead = offsets @ self.forward
        if np.all(ahead < self.near) or not mirror.faces(self.eye):
            return None
        if np.any(ahead < self.near):  # partly behind the eye: it may be anywhere
            return self
        sides = _overlap(offsets @ self.right / ahead, self.sides, margin)
        ends = _overlap(offsets @ self.up / ahead, self.ends, margin)
        return None if sides is None or ends is None else self._replace(sides=sides, ends=ends)


def _overlap(
    slopes: Numbers, within: tuple[float, float], margin: float
) -> tuple[float, float] | None:
    low = max(within[0], float(slopes.min()) - margin)
    high = min(within[1], float(slopes.max()) + margin)
    return (low, high) if low < high else None
