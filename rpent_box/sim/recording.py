# SPDX-License-Identifier: Apache-2.0
"""An episode's states, kept by a platform so that it can be drawn later."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Generic, TypeVar

from rpent_box.errors import BadOption

StateT = TypeVar("StateT")


class Recording(Generic[StateT]):
    """One state per control step, the scene's first one before them."""

    def __init__(self, control_hz: float) -> None:
        self._control_hz = control_hz
        self._states: list[StateT] = []

    @property
    def states(self) -> tuple[StateT, ...]:
        return tuple(self._states)

    def start(self, state: StateT) -> None:
        """Forget what was recorded and begin with `state`; the recording owns it from now on."""
        self._states = [state]

    def add(self, state: StateT) -> None:
        """Append the state after a control step; the recording owns it from now on."""
        self._states.append(state)

    def clear(self) -> None:
        """Forget what was recorded."""
        self._states = []

    def at(self, fps: float) -> Iterator[StateT]:
        """Yield the state that was current at each frame of a video, and the last one at its end.

        A rate above the control rate repeats states. Raises `BadOption` for a rate that is not
        positive.
        """
        if not fps > 0 or not math.isfinite(fps):
            raise BadOption(f"a video cannot have {fps} frames per second")
        last = len(self._states) - 1
        frames = math.ceil(last * fps / self._control_hz) + 1
        for frame in range(frames if self._states else 0):
            step = step_of_frame(frame, fps=fps, control_hz=self._control_hz)
            yield self._states[min(last, step)]


def step_of_frame(frame: int, *, fps: float, control_hz: float) -> int:
    """Return after how many control steps frame number `frame` of a video shows the scene."""
    # The small term keeps 3 * 20 / 20 from becoming 2 by rounding.
    return int(frame * control_hz / fps + 1e-9)
