# SPDX-License-Identifier: Apache-2.0
"""fast-wam with a fake network: everything but FastWAM itself, on any machine."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from fast_wam_parts import calibration, recipe
from numpy.typing import NDArray

from rpent_box.backends.fast_wam.adapter import ADAPTERS, FastWamInput
from rpent_box.backends.fast_wam.calibration import Calibration
from rpent_box.backends.fast_wam.model import FastWam, describe
from rpent_box.worker.backend import Backend

Spoil: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]


class FakePolicy:
    """Noise from the seed and from all that it was shown; notes what it was asked."""

    def __init__(self, horizon: int, action_dim: int) -> None:
        self._shape = (horizon, action_dim)
        self.spoil: Spoil = lambda raw: raw
        """What becomes of an answer before it is returned."""
        self.asked: list[tuple[FastWamInput, int]] = []
        self.answer: NDArray[Any] | None = None
        """What to return instead."""
        self.closed = 0

    def infer(self, seen: FastWamInput, seed: int) -> NDArray[Any]:
        self.asked.append((seen, seed))
        if self.answer is not None:
            return self.answer
        parts = (seen.image.tobytes(), seen.proprio.tobytes(), seen.prompt.encode())
        numbers = np.random.default_rng([seed, *map(zlib.crc32, parts)])
        return self.spoil((0.3 * numbers.standard_normal(self._shape)).astype(np.float32))

    def close(self) -> None:
        self.closed += 1


def fake_model(
    platform: str = "libero", **changed: Any
) -> tuple[FastWam[Calibration, FastWamInput], FakePolicy]:
    """Return the backend and the fake inside it; `changed` are fields of its recipe."""
    planned = recipe(platform, **changed)
    adapter = ADAPTERS[platform]
    policy = FakePolicy(planned.action_horizon, adapter.space.action_dim)
    meta = describe(
        planned,
        adapter,
        checkpoint="fake",
        horizon=planned.action_horizon,
        steps=planned.execute_steps,
        more={"statistics_sha256": "none"},
    )
    model = FastWam(policy, adapter, calibration(platform, **changed), meta, seed=planned.seed)
    return model, policy


@contextmanager
def fake_backend(platform: str, *, spoil: Spoil = lambda raw: raw) -> Iterator[Backend]:
    """Yield fast-wam for `platform`, with a fake network."""
    model, policy = fake_model(platform)
    policy.spoil = spoil
    yield model
    model.close()
