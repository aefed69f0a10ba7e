# SPDX-License-Identifier: Apache-2.0
"""Looking at a ring without being part of the conversation: copies, checked before and after.

Nothing is mapped and no lock is touched: the bytes are read from the segment's file, so that a ring
which is cut short or removed in the meantime costs its onlooker a picture, and not a bus error.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Container, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.errors import StaleFrame, TransportError
from rpent_box.transport.ring import (
    ALIGNMENT,
    HEADER_BYTES,
    LAYOUT_VERSION,
    MAGIC,
    SLOT_HEADER_BYTES,
    sized,
)

MOST_BYTES = 1 << 26
"""Of one look. More is no camera's; and what a payload says becomes memory of its onlooker."""

_HEADER = struct.Struct("=5Q")
_WORD = struct.Struct("=Q")


def copy_of(
    payload: Payload, *, search: Sequence[Path], names: Container[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return copies of the tensors of `payload`, or of those in `names`, as they lie in its slot.

    Opens the segment in the first of the folders `search` that has it, for reading only. Raises
    `StaleFrame` when the slot holds something else by now, or was written while it was copied, and
    `TransportError` when the ring is not here or `payload` cannot be right.
    """
    slot = payload.slot
    if slot is None:
        raise TransportError("these tensors are in no shared memory")
    wanted = [ref for ref in payload.tensors if names is None or ref.name in names]
    if len({ref.name for ref in payload.tensors}) != len(payload.tensors):
        raise TransportError("two tensors of one message have the same name")
    nbytes = sum(sized(ref)[1] for ref in wanted)
    if nbytes > MOST_BYTES:
        raise TransportError(f"{nbytes} bytes are too many to look at; at most {MOST_BYTES}")
    with closing(_Reading(slot.segment, search)) as reading:
        start = reading.start_of(slot)
        reading.require(slot, start)
        copies = {ref.name: reading.tensor(ref, start) for ref in wanted}
        reading.require(slot, start)
    return copies


class _Reading:
    """One opening of a ring's file."""

    def __init__(self, segment: str, search: Sequence[Path]) -> None:
        self._segment = segment
        self._descriptor = _open(segment, search)
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._descriptor)

    def start_of(self, slot: SlotRef) -> int:
        if not 0 <= slot.slot < self._slots:
            raise TransportError(f"{self._segment} has {self._slots} slots; got slot {slot.slot}")
        return HEADER_BYTES + slot.slot * self._stride

    def require(self, slot: SlotRef, start: int) -> None:
        """Raise `StaleFrame` unless the slot holds what `slot` names, written to its end."""
        (found,) = _WORD.unpack(self._read(_WORD.size, start))
        if slot.sequence <= 0 or slot.sequence % 2 or found != slot.sequence:
            raise StaleFrame(
                f"slot {slot.slot} of {self._segment} holds frame {found}; wanted {slot.sequence}"
            )

    def tensor(self, ref: TensorRef, start: int) -> NDArray[Any]:
        dtype, nbytes = sized(ref)
        if ref.offset < 0 or ref.offset % ALIGNMENT or ref.offset + nbytes > self._slot_bytes:
            raise TransportError(
                f"tensor {ref.name!r} of {nbytes} bytes at offset {ref.offset} is outside its slot "
                f"of {self._slot_bytes} bytes, or not aligned to {ALIGNMENT}"
            )
        data = self._read(nbytes, start + SLOT_HEADER_BYTES + ref.offset)
        return np.frombuffer(data, dtype).reshape(ref.shape)

    def _read_header(self) -> None:
        words: tuple[int, ...] = _HEADER.unpack(self._read(_HEADER.size, 0))
        magic, version, self._slots, self._slot_bytes, self._stride = words
        if (magic, version) != (MAGIC, LAYOUT_VERSION):
            raise TransportError(f"{self._segment} does not hold a ring of this version")

    def _read(self, nbytes: int, offset: int) -> bytes:
        try:
            data = os.pread(self._descriptor, nbytes, offset)
        except (OSError, OverflowError) as error:
            raise TransportError(f"{self._segment} cannot be read: {error}") from error
        if len(data) != nbytes:
            raise TransportError(f"{self._segment} ends within what it should hold")
        return data


def _open(segment: str, search: Sequence[Path]) -> int:
    name = segment.lstrip("/")
    if "/" in name or name in ("", ".", ".."):
        raise TransportError(f"{segment!r} is not a segment's name")
    for folder in search:
        try:
            descriptor = os.open(
                folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            )
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise TransportError(f"the segment {segment} is not on this machine, or its owner has ended")
