# SPDX-License-Identifier: Apache-2.0
"""The data set as tensors, normalised, by rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import normalise
from rpent_box.backends.mini_wam.dataset import SMALLEST_DEVIATION, Dataset
from rpent_box.backends.mini_wam.losses import Batch
from rpent_box.backends.mini_wam.network import FUTURE_SIZE

GREY = 110
"""What a blind network sees everywhere."""


class Rows:
    """All rows; `taught` and `held_out` are their numbers."""

    def __init__(self, dataset: Dataset, *, blind: bool = False) -> None:
        self.taught: NDArray[np.int64] = np.flatnonzero(~dataset.held_out)
        self.held_out: NDArray[np.int64] = np.flatnonzero(dataset.held_out)
        images = np.full_like(dataset.images, GREY) if blind else dataset.images
        self._images = torch.from_numpy(images)
        small = _downscaled(images[:, 0])
        self._small = torch.from_numpy(small)
        self._next = torch.from_numpy(np.maximum(dataset.next_row, 0))
        self._has_future = torch.from_numpy((dataset.next_row >= 0).astype(np.float32))
        self._proprio = torch.from_numpy(normalise(dataset.proprio, dataset.statistics()))
        self._instruction = torch.from_numpy(dataset.instruction)
        self._actions = torch.from_numpy(dataset.actions)
        self._progress = torch.from_numpy(dataset.progress)
        places = dataset.places[self.taught]
        self.places_mean = places.mean(0)
        self.places_deviation = np.maximum(places.std(0), SMALLEST_DEVIATION)
        self._places = torch.from_numpy((dataset.places - self.places_mean) / self.places_deviation)

    def batch(self, picked: NDArray[np.int64], *, precision: torch.dtype) -> Batch:
        """Return the rows numbered `picked`, frames in `precision`."""
        rows = torch.from_numpy(picked)
        now, after = self._small[rows], self._small[self._next[rows]]
        frames = self._images[rows].permute(0, 1, 4, 2, 3)
        return Batch(
            frames=frames.to(precision) / 255 - 0.5,
            proprio=self._proprio[rows],
            instruction=self._instruction[rows],
            actions=self._actions[rows],
            places=self._places[rows],
            progress=self._progress[rows],
            now=now - 0.5,
            change=after - now,
            has_future=self._has_future[rows],
        )


def _downscaled(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[rows, 128, 128, 3] → float32 [rows, 3, 64, 64], 0 to 1."""
    block = frames.shape[1] // FUTURE_SIZE
    shape = (len(frames), FUTURE_SIZE, block, FUTURE_SIZE, block, 3)
    small = frames.reshape(shape).mean((2, 4), dtype=np.float32) / 255
    return np.ascontiguousarray(small.transpose(0, 3, 1, 2))
