# SPDX-License-Identifier: Apache-2.0
"""Camera sensors that draw only when someone will look.

Robosuite samples each camera once per control step, in the middle of the physics steps, on a timer
of its own. Switching a camera off or forcing it afterwards moves that moment and gives other
pixels. So the timers run on, and only the sensor behind them is gated: while the gate is closed it
answers with its last frame. A control step with the gate open delivers exactly the stock pixels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
Sensor = Callable[[dict[str, Any]], Frame]


class CameraGate:
    """Wraps camera sensors as they are made, so that no reset can leave one ungated."""

    def __init__(self) -> None:
        self.is_open = False
        """Whether the next control step draws."""
        self.cameras: frozenset[str] | None = None
        """Robosuite's names of those that anyone looks through; None: all of them."""
        self.render_s = 0.0
        """Seconds spent drawing since the gate was made."""

    def is_used(self, camera: str) -> bool:
        """Return whether anyone looks through `camera`."""
        return self.cameras is None or camera in self.cameras

    def wrap(self, render: Sensor, *, camera: str, height: int, width: int) -> Sensor:
        """Return a sensor that calls `render` while the gate is open and else repeats itself.

        It calls it for no camera that nobody looks through.

        Its first value is black: robosuite asks every new sensor for its shape.
        """
        last: Frame = np.zeros((height, width, 3), dtype=np.uint8)

        def sensor(cache: dict[str, Any]) -> Frame:
            nonlocal last
            if self.is_open and self.is_used(camera):
                last = self._timed(render, cache)
            return last

        sensor.__dict__.update(vars(render))  # robosuite marks a sensor with its modality
        sensor.__name__ = render.__name__
        return sensor

    def _timed(self, render: Sensor, cache: dict[str, Any]) -> Frame:
        started = time.perf_counter()
        try:
            return render(cache)
        finally:
            self.render_s += time.perf_counter() - started
