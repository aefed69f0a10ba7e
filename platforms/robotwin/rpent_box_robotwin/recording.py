# SPDX-License-Identifier: Apache-2.0
"""An episode's simulator states, kept so that it can be drawn later. Needs no simulator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Generic, TypeVar

from rpent_box.errors import BadOption

State = TypeVar("State")


class Recording(Generic[State]):
    """One state per action, the scene's own first."""

    def __init__(self, control_hz: float) -> None:
        self._control_hz = control_hz
        self._states: list[State] = []

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(self._states)

    def start(self, state: State) -> None:
        """Forget what was recorded and begin with `state`; the recording owns it from now on."""
        self._states = [state]

    def add(self, state: State) -> None:
        """Append the state after an action; the recording owns it from now on."""
        self._states.append(state)

    def clear(self) -> None:
        self._states = []

    def at(self, fps: float) -> Iterator[State]:
        """Yield the state that was current at each frame of a video, and the last one at its end.

        An action counts as long as the control rate says. A rate above that one repeats states.
        Raises `BadOption` for a rate that is not positive.
        """
        if not fps > 0 or not math.isfinite(fps):
            raise BadOption(f"a video cannot have {fps} frames per second")
        last = len(self._states) - 1
        frames = math.ceil(last * fps / self._control_hz) + 1
        for number in range(frames if self._states else 0):
            # The small term keeps 3 * 20 / 20 from becoming 2 by rounding.
            yield self._states[min(last, int(number * self._control_hz / fps + 1e-9))]
