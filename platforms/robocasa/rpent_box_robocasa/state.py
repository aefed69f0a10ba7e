# SPDX-License-Identifier: Apache-2.0
"""A moment of an episode, kept so that it can be drawn later."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rpent_box_robocasa.moments import Appearance


class State(NamedTuple):
    """Where everything is and how it looks: water runs, burners light up. A few KB."""

    numbers: NDArray[np.float64]
    """[1 + nq + nv]: time, positions, velocities."""
    appearance: Appearance
    """Shared by all states between two changes."""
