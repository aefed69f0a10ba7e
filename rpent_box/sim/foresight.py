# SPDX-License-Identifier: Apache-2.0
"""What a model expected of an episode, beside what then came: kept small, compared, and drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import ActionChunk, Image, Observation

MOST_DB = 100.0
"""What frames without any difference count as."""


@dataclass
class Moment:
    """One prediction that tells more than actions."""

    step: int
    """When it was made."""
    due: int
    """The step that its frames are of: the one after its chunk."""
    value: float | None
    expected: dict[str, Image]
    """Camera role → the frame, at the model's own size; only of cameras that are shown."""
    now: dict[str, Image]
    """What those cameras showed when it was made, reduced to that size."""
    came: dict[str, Image] = field(default_factory=dict)
    """What they showed when it was due; empty where the episode ended before."""


class Foresight:
    """Gathers an episode's moments. Holds no frame of full size."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def predicted(self, step: int, chunk: ActionChunk, observation: Observation) -> None:
        """Note what a model that saw `observation` at `step` expects of the chunk that follows."""
        future = chunk.future_observation or {}
        expected = {role: future[role] for role in future if role in observation.images}
        if expected or chunk.value is not None:
            self.moments.append(
                Moment(
                    step=step,
                    due=step + len(chunk.actions),
                    value=chunk.value,
                    expected=expected,
                    now=self._now(step, expected, observation),
                )
            )

    def came(self, step: int, observation: Observation) -> None:
        """Note what is seen at `step`, for those who expected something of it."""
        for moment in reversed(self.moments):
            if moment.due == step:
                moment.came = _like(moment.expected, observation)
            elif moment.due < step:
                break

    def _now(
        self, step: int, expected: dict[str, Image], observation: Observation
    ) -> dict[str, Image]:
        # Mostly it is what the last prediction was about, and reduced already.
        last = self.moments[-1] if self.moments else None
        if last is not None and last.due == step and last.came.keys() == expected.keys():
            return last.came
        return _like(expected, observation)

    @property
    def expected_db(self) -> float | None:
        """How near the expected frames came to what was then seen; None: none can be compared.

        The peak signal-to-noise ratio of their mean squared error over the episode.
        """
        return _decibel([(one.expected, one.came) for one in self.moments])

    @property
    def copied_db(self) -> float | None:
        """The same for expecting that nothing changes: each time the frame that was seen before."""
        return _decibel([(one.now, one.came) for one in self.moments])


def reduced(image: Image, height: int, width: int) -> Image:
    """Return `image` at [height, width], each pixel the mean of the area that it covers."""
    tall, wide = image.shape[:2]
    rows = _averaging(tall, height) @ image.reshape(tall, wide * 3).astype(np.float32)
    lines = rows.reshape(height, wide, 3).transpose(0, 2, 1).reshape(height * 3, wide)
    both = (lines @ _averaging(wide, width).T).reshape(height, 3, width).transpose(0, 2, 1)
    return np.ascontiguousarray(np.clip(both + 0.5, 0, 255), np.uint8)


def _like(frames: dict[str, Image], observation: Observation) -> dict[str, Image]:
    return {
        role: reduced(observation.images[role], *frame.shape[:2]) for role, frame in frames.items()
    }


@lru_cache(maxsize=16)
def _averaging(length: int, parts: int) -> NDArray[np.float32]:
    """Return [parts, length]: each row is the weights of one part's mean."""
    edges = np.linspace(0, length, parts + 1)[:, None]
    pixels = np.arange(length)
    covered = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    weights: NDArray[np.float32] = (np.maximum(covered, 0) * (parts / length)).astype(np.float32)
    return weights


def _decibel(pairs: list[tuple[dict[str, Image], dict[str, Image]]]) -> float | None:
    errors = [
        float(np.mean((np.subtract(frames[role], came[role], dtype=np.float32)) ** 2))
        for frames, came in pairs
        for role in came
    ]
    if not errors:
        return None
    error = math.fsum(errors) / len(errors)
    return min(MOST_DB, 10 * math.log10(255**2 / error)) if error > 0 else MOST_DB
