# SPDX-License-Identifier: Apache-2.0
"""The data set as tensors, normalised, by rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpent_box.backends.mini_wam.adapter.encode import normalise
from rpent_box.backends.mini_wam.dataset import SMALLEST_DEVIATION, Dataset
from rpent_box.backends.mini_wam.losses import Batch
from rpent_box.backends.mini_wam.model import GREY
from rpent_box.backends.mini_wam.paraphrase import paraphrase
from rpent_box.backends.mini_wam.text import encode_instruction

PARAPHRASES = 200
"""Of each sentence, made once."""
PARAPHRASED_SHARE = 0.6
PRIMARY = slice(0, 1)


class Rows:
    """All rows; `taught` and `held_out` are their numbers."""

    def __init__(self, dataset: Dataset, *, blind: bool = False) -> None:
        self.taught: NDArray[np.int64] = np.flatnonzero(~dataset.held_out)
        self.held_out: NDArray[np.int64] = np.flatnonzero(dataset.held_out)
        self._frames = dataset.frames
        self._blind = blind
        self._future = dataset.future
        self._sentence = dataset.sentence
        self._spoken = torch.from_numpy(np.stack([_said(text) for text in dataset.sentences]))
        self._proprio = torch.from_numpy(normalise(dataset.proprio, dataset.statistics()))
        self._actions = torch.from_numpy(dataset.actions)
        self._executed = torch.from_numpy(dataset.executed)
        self._progress = torch.from_numpy(dataset.progress)
        places = dataset.places[self.taught]
        self.places_mean = places.mean(0)
        self.places_deviation = np.maximum(places.std(0), SMALLEST_DEVIATION)
        self._places = torch.from_numpy((dataset.places - self.places_mean) / self.places_deviation)

    def batch(
        self,
        picked: NDArray[np.int64],
        *,
        precision: torch.dtype,
        rng: np.random.Generator | None = None,
    ) -> Batch:
        """Return the rows numbered `picked`, frames in `precision`.

        A generator lets sentences be said in other words; without one they are the tasks' own.
        """
        rows = torch.from_numpy(picked)
        images = self._frames.take(picked)
        future = self._future[picked]
        after = self._frames.take(np.where(future < 0, picked, future), cameras=PRIMARY)
        now = _small(images[:, 0])
        return Batch(
            frames=self._seen(images).to(precision).div_(255),
            proprio=self._proprio[rows],
            instruction=self._spoken[self._sentence[picked], _wordings(len(picked), rng)],
            actions=self._actions[rows],
            executed=self._executed[rows],
            places=self._places[rows],
            progress=self._progress[rows],
            now=now,
            change=_small(after[:, 0]) - now,
            has_future=torch.from_numpy((future >= 0).astype(np.float32)),
        )

    def _seen(self, images: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(np.full_like(images, GREY) if self._blind else images)


def _said(sentence: str) -> NDArray[np.float32]:
    """Return [1 + PARAPHRASES, TEXT_FEATURES]: the sentence, then other ways to say it."""
    rng = np.random.default_rng(list(sentence.encode()))
    others = [paraphrase(sentence, rng) for _ in range(PARAPHRASES)]
    return np.stack([encode_instruction(text) for text in (sentence, *others)])


def _wordings(rows: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
    """Return for each row which wording of its sentence it comes with."""
    if rng is None:
        return np.zeros(rows, np.int64)
    chosen = rng.integers(1, 1 + PARAPHRASES, rows)
    return np.where(rng.random(rows) < PARAPHRASED_SHARE, chosen, 0)


def _small(frames: NDArray[np.uint8]) -> Tensor:
    """[rows, 3, 128, 128] → float32 [rows, 3, 64, 64], 0 to 1: `downscale`, in whole numbers."""
    lines = frames[:, :, 0::2].astype(np.uint16) + frames[:, :, 1::2]
    sums = lines[..., 0::2] + lines[..., 1::2]
    return torch.from_numpy(sums.astype(np.float32)).div_(4 * 255)
