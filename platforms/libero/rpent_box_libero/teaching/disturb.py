# SPDX-License-Identifier: Apache-2.0
"""Noise on actions, so that demonstrations hold the mistakes of a student and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CALM_SHARE = 0.40
"""Of the spells of a disturbed episode."""
DRIFT_SHARE = 0.75
"""Of the disturbances; the others are pushes."""
WRONG_GRIPPER_SHARE = 0.04
LONGEST_SPELL = 2
"""Segments for which a spell lasts, at most."""
FLICKER = 0.08
"""Deviation of the white noise on top of a bias."""


@dataclass(frozen=True)
class Disturbance:
    """A constant bias [6], white noise on top, and sometimes the wrong gripper.

    A bias that lasts is what an open-loop student's errors look like; white noise averages out.
    """

    bias: Array
    flicker: float
    wrong_gripper: bool

    def apply(self, rng: np.random.Generator, actions: Array) -> Array:
        """Return `actions` [steps, 7] disturbed, each value within [-1, 1]."""
        moved: Array = actions.copy()
        moved[:, :6] += self.bias + rng.normal(0, self.flicker, (len(actions), 6))
        if self.wrong_gripper:
            moved[:, 6] *= -1
        moved.clip(-1.0, 1.0, out=moved)
        return moved


def draw_disturbance(rng: np.random.Generator, level: float) -> Disturbance:
    """Draw a drift (mostly) or a hard push, as strong as `level` says."""
    if rng.random() < DRIFT_SHARE:
        bias = np.concatenate([rng.normal(0, 0.25, 3), rng.normal(0, 0.08, 3)])
    else:
        bias = np.concatenate([rng.uniform(-0.7, 0.7, 3), rng.normal(0, 0.15, 3)])
    wrong = rng.random() < WRONG_GRIPPER_SHARE * level
    return Disturbance(bias=level * bias, flicker=level * FLICKER, wrong_gripper=wrong)


class Spells:
    """What the segments of an episode suffer, one after the other: each spell lasts for a few."""

    def __init__(self, rng: np.random.Generator, level: float) -> None:
        self._rng = rng
        self._level = level
        self._spell: Disturbance | None = None
        self._left = 0

    def draw(self) -> Disturbance | None:
        """Return what disturbs the next segment; None: it is calm. At level 0 all are."""
        if self._level <= 0:
            return None
        if not self._left:
            self._left = int(self._rng.integers(1, LONGEST_SPELL + 1))
            calm = self._rng.random() < CALM_SHARE
            self._spell = None if calm else draw_disturbance(self._rng, self._level)
        self._left -= 1
        return self._spell


def draw_push(rng: np.random.Generator) -> Array:
    """Return actions [5 to 15, 7] that take the hand somewhere else before an episode begins."""
    steps = int(rng.integers(5, 16))
    push = np.concatenate([rng.uniform(-1, 1, 2), rng.uniform(-0.6, 1, 1), rng.normal(0, 0.15, 3)])
    grip = 1.0 if rng.random() < 0.2 else -1.0
    push = np.concatenate([push, [grip]]).clip(-1.0, 1.0)
    return np.tile(push, (steps, 1))
