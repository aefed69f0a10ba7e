# SPDX-License-Identifier: Apache-2.0
"""Where a prediction's time goes inside a model."""

from __future__ import annotations

import time
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal["encode", "infer", "decode"]


class StageClock:
    """Measures the stages of one prediction, each from the end of the one before."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._seconds: dict[str, float] = {}

    def ended(self, stage: Stage) -> dict[str, float]:
        """Note that `stage` has ended; return the seconds of every stage so far."""
        now = time.monotonic()
        self._seconds[stage] = now - self._since
        self._since = now
        return dict(self._seconds)
