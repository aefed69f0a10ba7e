# SPDX-License-Identifier: Apache-2.0
"""The global generators that RoboTwin draws from, as a scene's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class Randomness:
    """Two global generators that continue where this scene left them, whoever drew in between.

    A scene draws while it is built, and one in fifty randomized ones flickers: it draws new lights
    at every physics step.
    """

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed).get_state(legacy=False)

    @contextmanager
    def drawn_from(self) -> Iterator[None]:
        """Put this scene's generators in the global ones' place, and those back afterwards."""
        python, numbers = random.getstate(), np.random.get_state(legacy=False)
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python = random.getstate()
            self._numpy = np.random.get_state(legacy=False)
            random.setstate(python)
            np.random.set_state(numbers)
