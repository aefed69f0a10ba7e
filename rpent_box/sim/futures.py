# SPDX-License-Identifier: Apache-2.0
"""The frames that a world action model expected, kept beside the episode that really happened."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rpent_box.contracts.observation import Image
from rpent_box.errors import BadActions
from rpent_box.sim.results import write_atomically

FUTURES_FILE = "futures.npz"


class Futures:
    """Gathers an episode's future frames, by camera role."""

    def __init__(self) -> None:
        self._frames: dict[str, list[Image]] = {}
        self._steps: dict[str, list[int]] = {}

    def add(self, step: int, images: Mapping[str, Image] | None) -> None:
        """Keep what was expected after the chunk that begins at `step`; None adds nothing.

        Raises `BadActions` when a camera's frame changes its size within an episode.
        """
        for role, image in (images or {}).items():
            frames = self._frames.setdefault(role, [])
            if frames and frames[0].shape != image.shape:
                raise BadActions(
                    f"the future {role} is {list(image.shape)} at step {step}; it began as "
                    f"{list(frames[0].shape)}"
                )
            frames.append(image)
            self._steps.setdefault(role, []).append(step)

    def save(self, folder: Path) -> str | None:
        """Write `futures.npz` into `folder` and return its name; None when there is no frame.

        For each camera role, `future_<role>` is uint8 [predictions, height, width, 3], and
        `step_<role>` int64 [predictions]: the step at which each was asked for. Raises
        `OutputError`.
        """
        if not self._frames:
            return None
        arrays: dict[str, Any] = {}
        for role, frames in self._frames.items():
            arrays[f"future_{role}"] = np.stack(frames)
            arrays[f"step_{role}"] = np.asarray(self._steps[role], np.int64)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_atomically(folder / FUTURES_FILE, buffer.getvalue())
        return FUTURES_FILE
