# SPDX-License-Identifier: Apache-2.0
"""Frames of earlier control steps, where the platform does not show them.

A model that looks back wants the frames of certain control steps before now. A platform that offers
them shows each as a camera role of its own (`names.past_role`), and nothing of this is used. Else
the frames of a session's own earlier predictions stand in: a prediction is made every
`execute_steps` steps, so a frame between two of them is replaced by the one before it.
"""

from __future__ import annotations

from collections import deque

from rpent_box.backends.rldx.modality import Modality
from rpent_box.backends.rldx.names import CAMERAS, past_role
from rpent_box.contracts.observation import Image


class Recollection:
    """What one session has shown since its reset. Holds copies."""

    def __init__(self, modality: Modality, execute_steps: int) -> None:
        self._roles = tuple(CAMERAS[camera] for camera in modality.cameras)
        self._steps_ago = tuple(steps for steps in modality.steps_ago if steps)
        self._execute_steps = execute_steps
        longest = max((self._predictions_ago(steps) for steps in self._steps_ago), default=0)
        self._shown: deque[dict[str, Image]] = deque(maxlen=longest)

    def with_past(self, images: dict[str, Image]) -> dict[str, Image]:
        """Return `images` and the frames of earlier steps.

        At an episode's start its first frame stands for all that came before it.
        """
        past = {
            past_role(role, steps): self._shown_at(steps, images)[role]
            for steps in self._steps_ago
            for role in self._roles
        }
        return images | past

    def remember(self, images: dict[str, Image]) -> None:
        """Keep a copy of what a prediction was made from."""
        if self._shown.maxlen:
            self._shown.append({role: images[role].copy() for role in self._roles})

    def _shown_at(self, steps: int, images: dict[str, Image]) -> dict[str, Image]:
        """Return the last frames shown at or before `steps` ago, else the first ones."""
        if not self._shown:
            return images
        back = min(self._predictions_ago(steps), len(self._shown))
        return self._shown[-back]

    def _predictions_ago(self, steps: int) -> int:
        return -(-steps // self._execute_steps)
