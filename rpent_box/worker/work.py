# SPDX-License-Identifier: Apache-2.0
"""What the receiving thread hands to the inferring thread, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from rpent_box.contracts.messages import Fault
from rpent_box.contracts.observation import ActionChunk
from rpent_box.worker.backend import Backend, PredictionInput


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """One observation that waits for the model."""

    connection: bytes
    request_id: int
    received: float
    """`time.monotonic()` seconds, as is `deadline`."""
    deadline: float
    input: PredictionInput
    recheck: Callable[[], None]
    """Raises `StaleFrame` when the pixels are no longer the ones that were sent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Errand:
    """A session operation: it keeps its place between the predictions of its connection.

    It has no deadline: dropping a reset would leave the last episode in the model's memory.
    """

    connection: bytes
    request_id: int | None
    """None: nobody waits for an answer."""
    run: Callable[[Backend], None]


Work: TypeAlias = Prediction | Errand


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What the receiving thread shall send."""

    connection: bytes
    request_id: int
    result: ActionChunk | Fault | None
    """None: done, with nothing more to say."""
