# SPDX-License-Identifier: Apache-2.0
"""What the cameras would have seen in the last control steps, drawn only when someone looks.

Robosuite samples its cameras once per control step, in the middle of the physics steps, on a timer
of its own. Drawing a camera later shows another moment, and drawing all of them at each step costs
ten times the physics. So the sensors draw nothing: the first of them writes down where everything
is, at exactly the moment at which the stock cameras draw. Whoever looks, later, gets the stock
pixels; a model that looks back over earlier steps is served the same way.

Import this module inside `prepared_process`.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image
from rpent_box_robocasa.observation import upright

_PLACES = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis"),
    *("geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "cam_xpos", "cam_xmat"),
    *("light_xpos", "light_xdir", "flexvert_xpos"),
    *("ten_length", "ten_wrapadr", "ten_wrapnum", "wrap_obj", "wrap_xpos"),
)
"""The parts of MuJoCo's data that drawing reads: where in the world everything is."""
_LOOKS = ("geom_rgba", "site_rgba", "site_size")
"""Parts of the model that RoboCasa changes on the way: sauces, water, flames."""

Arrays = dict[str, NDArray[Any]]


class Appearance:
    """The colours and sizes of a model, held once for all moments between two changes."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - robosuite is untyped
        self._arrays: Arrays = {name: getattr(model, name).copy() for name in _LOOKS}

    def is_of(self, model: Any) -> bool:  # noqa: ANN401
        """Return whether `model` looks like this now."""
        return all(np.array_equal(getattr(model, name), was) for name, was in self._arrays.items())

    def put_on(self, model: Any) -> None:  # noqa: ANN401
        """Let `model` look like this."""
        for name, was in self._arrays.items():
            getattr(model, name)[...] = was


class Moment:
    """Where everything was, how it looked, and the frames that were drawn of it."""

    def __init__(self, places: Arrays, appearance: Appearance) -> None:
        self.places = places
        self.appearance = appearance
        self.frames: dict[str, Image] = {}
        """Camera → frame, once it was drawn."""


class Moments:
    """The last `depth` + 1 control steps of one scene. The first stands for all before it."""

    def __init__(self, depth: int, *, image_size: int) -> None:
        self._size = image_size
        self._kept: deque[Moment] = deque(maxlen=depth + 1)
        self._sim: Any = None
        self._stage: Any = None
        """Data of the same model, into which a moment is put to be drawn."""

    @property
    def appearance(self) -> Appearance:
        """How the scene looked in the last control step."""
        return self._kept[-1].appearance

    def begin(self) -> None:
        """Forget the scene and whatever of it was kept."""
        self._kept.clear()
        self._sim = self._stage = None

    def advance(self) -> None:
        """Begin another control step: what is kept next is its moment."""
        self._kept.append(self._kept[-1])

    def keep(self, sim: Any) -> None:  # noqa: ANN401
        """Write down the moment that `sim` is in, as that of the current control step."""
        if sim is not self._sim:
            self.begin()
            self._sim, self._stage = sim, copy.copy(sim.data._data)
        appearance = self._kept[-1].appearance if self._kept else Appearance(sim.model)
        if not appearance.is_of(sim.model):
            appearance = Appearance(sim.model)
        data = sim.data._data
        moment = Moment({name: getattr(data, name).copy() for name in _PLACES}, appearance)
        if self._kept:
            self._kept[-1] = moment
        else:
            self._kept.append(moment)

    def frame(self, camera: str, *, steps_ago: int = 0) -> Image:
        """Return what `camera` saw, upright. Drawn once, then shared: do not write into it."""
        moment = self._kept[max(0, len(self._kept) - 1 - steps_ago)]
        if camera not in moment.frames:
            moment.frames[camera] = self._draw(camera, moment)
        return moment.frames[camera]

    def _draw(self, camera: str, moment: Moment) -> Image:
        for name, values in moment.places.items():
            getattr(self._stage, name)[...] = values
        model, context = self._sim.model, self._sim._render_context_offscreen
        now = Appearance(model)
        moment.appearance.put_on(model)
        data, context.data = context.data, _Staged(self._stage)
        try:
            return drawn(self._sim, camera, self._size)
        finally:
            context.data = data
            now.put_on(model)


class _Staged:
    """What robosuite's drawing expects of its data: the thing itself under a private name."""

    def __init__(self, data: Any) -> None:  # noqa: ANN401
        self._data = data


def drawn(sim: Any, camera: str, size: int) -> Image:  # noqa: ANN401
    """Return what `camera` sees of `sim`, uint8 RGB [size, size, 3], upright."""
    sim._render_context_offscreen.gl_ctx.make_current()  # someone else may have drawn in between
    return upright(sim.render(camera_name=camera, width=size, height=size))
