# SPDX-License-Identifier: Apache-2.0
"""An episode's simulator states, kept so that it can be drawn later."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rpent_box.errors import BadOption

if TYPE_CHECKING:
    from rpent_box_robocasa.moments import Appearance


class State(NamedTuple):
    """Where everything is and how it looks: water runs, burners light up."""

    numbers: NDArray[np.float64]
    """[1 + nq + nv]: time, positions, velocities."""
    appearance: Appearance
    """Shared by all states between two changes."""


class Recording:
    """One state per control step, the settled one first: a few KB each."""

    def __init__(self, control_hz: float) -> None:
        self._control_hz = control_hz
        self._states: list[State] = []

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(self._states)

    def start(self, state: State) -> None:
        """Forget what was recorded and begin with `state`."""
        self._states = [state]

    def add(self, state: State) -> None:
        """Append the state after a control step."""
        self._states.append(state)

    def at(self, fps: float) -> Iterator[State]:
        """Yield the state that was current at each frame of a video, and the last one at its end.

        A rate above the control rate repeats states. Raises `BadOption` for a rate that is not
        positive.
        """
        if not fps > 0 or not math.isfinite(fps):
            raise BadOption(f"a video cannot have {fps} frames per second")
        last = len(self._states) - 1
        frames = math.ceil(last * fps / self._control_hz) + 1
        for frame in range(frames if self._states else 0):
            # The small term keeps 3 * 20 / 20 from becoming 2 by rounding.
            yield self._states[min(last, int(frame * self._control_hz / fps + 1e-9))]
