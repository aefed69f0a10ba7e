# SPDX-License-Identifier: Apache-2.0
"""What is sent, and what comes back: the same for every line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Images = dict[str, NDArray[np.uint8]]
Actions = NDArray[np.float32]

ACTIONS_SHAPE = (16, 7)


@dataclass(frozen=True)
class Case:
    """One size of observation."""

    name: str
    cameras: int
    height: int
    width: int
    environments: int = 1

    @property
    def nbytes(self) -> int:
        return self.environments * self.cameras * self.height * self.width * 3

    @property
    def names(self) -> list[str]:
        count = self.environments * self.cameras
        return [f"camera_{number}" for number in range(count)]

    def images(self) -> Images:
        """Return noise, uint8 RGB [height, width, 3] per camera."""
        random = np.random.default_rng(0)
        shape = (self.height, self.width, 3)
        return {name: random.integers(0, 256, shape, np.uint8) for name in self.names}


CASES = (
    Case("2x256x256", 2, 256, 256),
    Case("3x480x640", 3, 480, 640),
    Case("1x1080x1920", 1, 1080, 1920),
    Case("16 envs x 2x256x256", 2, 256, 256, environments=16),
)


def answer_to(images: Images) -> Actions:
    """What every server does: look at the first and the last pixel of each image."""
    actions = np.zeros(ACTIONS_SHAPE, np.float32)
    first = last = 0
    for image in images.values():
        first += int(image[0, 0, 0])
        last += int(image[-1, -1, -1])
    actions[0, 0] = first
    actions[0, 1] = last
    return actions


def check(actions: Actions, images: Images) -> None:
    """Raise unless `actions` answer `images`: a fast wrong line is not a result."""
    if not np.array_equal(actions, answer_to(images)):
        raise RuntimeError(f"a wrong answer came back: {actions[0]}")
