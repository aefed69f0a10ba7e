# SPDX-License-Identifier: Apache-2.0
"""The work that every line of the benchmark does, and how each tells what it has done.

An episode is 110 control steps from a recorded initial state, seeded before its reset, its actions
fixed in advance and given in chunks of 10. A policy input is what a policy sees when a chunk is
asked for: both frames and the hand's place, of which one hash is taken. It is taken of the frames
as the simulator renders them, so that lines which turn them upright in different ways compare.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUITE = "libero_spatial"
TASK = 0
SEED = 7
STEPS = 110
CHUNK = 10
IMAGE_SIZE = 256


@dataclass
class Episode:
    """What a line prints when an episode has ended: one JSON object."""

    init_state: int
    steps: int
    seen: list[str]
    """Hash of each policy input, in order."""
    ended_s: float = 0.0
    """On the machine's monotonic clock."""
    shared_bytes: int = 0
    """Tensors that went from process to process through shared memory."""
    socket_bytes: int = 0
    """What went through sockets, both ways."""
    setup_s: float | None = None
    """Reset and settling, where the line knows it."""
    notes: dict[str, Any] = field(default_factory=dict)

    def tell(self) -> None:
        """Print it: now is its end."""
        self.ended_s = time.monotonic()
        sys.stdout.write(json.dumps(asdict(self)) + "\n")
        sys.stdout.flush()


def actions() -> NDArray[np.float32]:
    """Return [steps, 7]: down onto the table, around, the gripper closing and opening."""
    rows = np.random.default_rng(3).uniform(-0.4, 0.4, (STEPS, 7))
    rows[:, 2] -= 0.25
    rows[:, 6] = np.where(np.arange(STEPS) % 25 < 12, -1, 1)
    return rows.astype(np.float32)


def input_hash(
    primary: NDArray[np.uint8],
    wrist: NDArray[np.uint8],
    eef_position: NDArray[Any],
    gripper_qpos: NDArray[Any],
) -> str:
    """Return the hash of a policy input; frames [height, width, 3] as rendered, upside down."""
    digest = hashlib.sha256()
    for frame in (primary, wrist):
        digest.update(np.ascontiguousarray(frame).tobytes())
    for vector in (eef_position, gripper_qpos):
        digest.update(np.asarray(vector, dtype="<f4").tobytes())
    return digest.hexdigest()
