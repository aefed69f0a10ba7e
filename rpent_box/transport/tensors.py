# SPDX-License-Identifier: Apache-2.0
"""Tensors that travel as raw frames behind an envelope."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpent_box.contracts.messages import Payload
from rpent_box.errors import TransportError
from rpent_box.transport.ring import Tensor, sized


def from_frames(payload: Payload, frames: Sequence[memoryview]) -> dict[str, Tensor]:
    """Return read-only arrays over `frames`, which they keep alive.

    Raises `TransportError` when the frames are not what `payload` describes.
    """
    if len(frames) != len(payload.tensors):
        raise TransportError(
            f"{len(payload.tensors)} tensors were announced, {len(frames)} frames came"
        )
    tensors: dict[str, Tensor] = {}
    for ref, frame in zip(payload.tensors, frames, strict=True):
        dtype, nbytes = sized(ref)
        if frame.nbytes != nbytes or ref.name in tensors:
            raise TransportError(
                f"tensor {ref.name!r} {list(ref.shape)} needs {nbytes} bytes under a name of its "
                f"own; {frame.nbytes} came"
            )
        flat = np.frombuffer(frame, dtype)
        if not flat.flags.aligned:
            flat = flat.copy()
        tensor = flat.reshape(ref.shape)
        tensor.flags.writeable = False
        tensors[ref.name] = tensor
    return tensors
