# SPDX-License-Identifier: Apache-2.0
"""mini-wam's own backend and adapters around a session that is a checksum."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from mini_wam_parts import model
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.session import Arrays
from rpent_box.worker.backend import Backend

HORIZON = 10
COLUMNS = 7


class ChecksumSession:
    """Every input moves every action; nothing else does."""

    def __init__(self, spoil: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self._spoil = spoil

    def run(self, outputs: Sequence[str], inputs: Arrays) -> dict[str, NDArray[np.float32]]:
        names = sorted(inputs)
        rows = [
            self._spoil(_numbers([inputs[name][row].tobytes() for name in names]))
            for row in range(len(inputs["images"]))
        ]
        return {"actions": np.stack(rows)}


@contextmanager
def fake_backend(
    platform: str, *, spoil: Callable[[NDArray[Any]], NDArray[Any]] = lambda raw: raw
) -> Iterator[Backend]:
    """The real `MiniWam` with the adapter of `platform`."""
    backend = model(ChecksumSession(spoil), platform=platform)
    yield backend
    backend.close()


def _numbers(parts: list[bytes]) -> NDArray[np.float32]:
    rng = np.random.default_rng([zlib.crc32(part) for part in parts])
    return rng.uniform(-1, 1, (HORIZON, COLUMNS)).astype(np.float32)
