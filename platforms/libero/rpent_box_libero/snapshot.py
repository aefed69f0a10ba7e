# SPDX-License-Identifier: Apache-2.0
"""What of a scene survives a reset: the compiled model as it was compiled, and its GL context.

A hard reset costs 2.9 s, of which 2.8 s compile the same XML again, upload the same meshes and
textures again, and draw frames that nobody sees. Everything else, 0.1 s of Python, is the reset
itself and is left to robosuite. So the state after a reset is whatever a hard reset gives, for any
seed, and no list of attributes has to be kept complete.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rpent_box_libero.simulation import LeanSim

_NEVER_WRITTEN = ("mesh_", "tex_", "bvh_", "hfield_", "skin_", "name", "text_", "tuple_", "paths")
"""Geometry, pixels and names: a quarter of a gigabyte that no simulation step changes."""


class SceneSnapshot:
    """A compiled model that can be made new again, byte by byte."""

    def __init__(self, xml: str) -> None:
        self.xml = xml
        """What it was compiled from; another text needs another snapshot."""
        self._model = mujoco.MjModel.from_xml_string(xml)
        self._pristine = _writable_arrays(self._model)
        self._context: Any = None

    def keep_context(self, sim: Any) -> None:  # noqa: ANN401 - robosuite is untyped
        """Hold the GL context of `sim`, which is about to be freed."""
        self._context = sim._render_context_offscreen or self._context

    def renew(self) -> LeanSim:
        """Return a simulation as if just compiled: the model restored, the data new."""
        for name, values in self._pristine.items():
            getattr(self._model, name)[...] = values
        sim = LeanSim(self._model)
        if self._context is not None:
            self._context.gl_ctx.make_current()  # someone else may have drawn in between
            self._context.sim, self._context.model = sim, sim.model
            self._context.data = sim.data
            sim.add_render_context(self._context)
        return sim


def _writable_arrays(model: Any) -> dict[str, NDArray[Any]]:  # noqa: ANN401
    arrays = {}
    for name in dir(model):
        if not name.startswith(("_", *_NEVER_WRITTEN)):
            value = getattr(model, name)
            if isinstance(value, np.ndarray):
                arrays[name] = value.copy()
    return arrays
