# SPDX-License-Identifier: Apache-2.0
"""pi05's own backend around a policy that is a checksum: every input moves every action."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.pi05.adapter import ADAPTERS, LiberoInput
from rpent_box.backends.pi05.model import Pi05
from rpent_box.backends.pi05.options import Pi05Options
from rpent_box.worker.backend import Backend

HORIZON = 10
NOISE_SHAPE = (HORIZON, 32)
COLUMNS = 7


class FakePolicy:
    """Answers as openpi does: float64 [horizon, 7], a function of everything that it is given."""

    def __init__(self, spoil: Callable[[NDArray[Any]], NDArray[Any]] = lambda raw: raw) -> None:
        self._spoil = spoil
        self.shown: list[tuple[LiberoInput, NDArray[np.float32], int]] = []
        """What it was asked, in order."""

    @property
    def noise_shape(self) -> tuple[int, int]:
        return NOISE_SHAPE

    def infer(
        self, shown: LiberoInput, *, noise: NDArray[np.float32], num_steps: int
    ) -> NDArray[Any]:
        self.shown.append((shown, noise, num_steps))
        parts = (
            shown.image.tobytes(),
            shown.wrist_image.tobytes(),
            shown.state.tobytes(),
            shown.prompt.encode(),
            noise.tobytes(),
            str(num_steps).encode(),
        )
        seed = [zlib.crc32(part) for part in parts]
        return self._spoil(np.random.default_rng(seed).uniform(-1, 1, (HORIZON, COLUMNS)))


@contextmanager
def fake_backend(
    platform: str, *, spoil: Callable[[NDArray[Any]], NDArray[Any]] = lambda raw: raw
) -> Iterator[Backend]:
    """The real `Pi05` and the real adapter of `platform` around a `FakePolicy`."""
    backend = make_backend(FakePolicy(spoil), platform=platform)
    yield backend
    backend.close()


def make_backend(
    policy: FakePolicy, *, platform: str = "libero", options: Pi05Options | None = None
) -> Pi05:
    return Pi05(
        policy,
        ADAPTERS[platform],
        options or Pi05Options(),
        checkpoint="fake",
        provenance={"weights": "a fake"},
    )
