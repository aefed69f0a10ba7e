# SPDX-License-Identifier: Apache-2.0
"""A ring of slots in one segment: one side writes tensors, the other reads them in place.

    segment   ┌──────────┬──────────────┬──────────────┬─────┬──────────────┐
              │ header   │ slot 0       │ slot 1       │  …  │ slot n-1     │
              └──────────┴──────────────┴──────────────┴─────┴──────────────┘
    byte      0          4096           4096 + stride
    header    magic u64 │ version u64 │ slots u64 │ slot_bytes u64 │ stride u64
    slot      ┌────────────────────────────────────┬─────────────┬─────────────┬───┐
              │ sequence u64 │ length u64 │ time_ns │ tensor 0    │ tensor 1    │ … │
              └────────────────────────────────────┴─────────────┴─────────────┴───┘
    byte      0              8            16       128           64-aligned

- The sequence is odd while the writer writes and even afterwards; each use of a slot adds two. A
  reader compares it with the number in the descriptor before and after use, so a torn or a reused
  slot is `StaleFrame` and never a wrong picture.
- ZeroMQ synchronises. Nobody waits for a byte in here to change, so no memory fence is needed
  beyond the system calls that carried the descriptor.
- Free slots are a stack: the slot that came back last goes out first, while it is in the cache
  (0.6 times the cost of going round, at 6 MB).
- A slot is held until its reply has come. After a timeout it is in quarantine until `reset()`:
  nobody knows whether the other side still reads it. Nothing is ever overwritten while held.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.errors import NoFreeSlot, StaleFrame, TransportError
from rpent_box.transport.segment import Segment, SegmentView

Tensor = NDArray[Any]
"""uint8 or float32, any shape."""

MAGIC = int.from_bytes(b"rpentbox", "little")
LAYOUT_VERSION = 1
HEADER_BYTES = 4096
SLOT_HEADER_BYTES = 128
ALIGNMENT = 64
PAGE = 4096

DTYPES: dict[str, np.dtype[Any]] = {"uint8": np.dtype(np.uint8), "float32": np.dtype("<f4")}
_WIRE_DTYPES: dict[str, Literal["uint8", "float32"]] = {"|u1": "uint8", "<f4": "float32"}
_MAX_DIMENSIONS = 8
_REMEMBERED = 16
"""Layouts kept at each end: a client sends the same few again and again."""
_WORD = 8
_LENGTH_WORD = 1
_TIME_WORD = 2


class Hold(Struct, frozen=True, kw_only=True):
    """Who has a slot, and since when."""

    holder: str
    sequence: int
    since: float
    """`time.monotonic()`"""
    quarantined: bool = False


class Plan(Struct, frozen=True, kw_only=True):
    """Where tensors of given names, types and shapes go; the same from one request to the next."""

    refs: tuple[TensorRef, ...]
    nbytes: int
    targets: dict[int, tuple[Tensor, ...]]
    """Slot → arrays that look into it. Made at its first use."""


class Ring:
    """The writing side; owns its segment. Its methods may be called from any thread."""

    def __init__(self, segment: Segment, slots: int, slot_bytes: int) -> None:
        self._stride = _stride(slot_bytes)
        if slots < 1 or segment.size < HEADER_BYTES + slots * self._stride:
            raise TransportError(
                f"{slots} slots of {slot_bytes} bytes do not fit into {segment.size} bytes"
            )
        self.slots = slots
        self.slot_bytes = slot_bytes
        self._segment = segment
        self._words = segment.buffer[: segment.size // _WORD * _WORD].cast("Q")
        self._bytes: NDArray[np.uint8] | None = np.frombuffer(segment.buffer, np.uint8)
        self._words[0:5] = _words_of(MAGIC, LAYOUT_VERSION, slots, slot_bytes, self._stride)
        self._free = list(range(slots - 1, -1, -1))
        self._held: dict[int, Hold] = {}
        self._plans: dict[tuple[tuple[str, str, tuple[int, ...]], ...], Plan] = {}
        self._changed = threading.Condition()
        self._closed = False

    @classmethod
    def create(
        cls,
        name: str,
        *,
        slots: int,
        slot_bytes: int,
        grants: Path | None = None,
        directory: Path | None = None,
    ) -> Ring:
        """Create the segment too. Raises `SharedMemoryFull`."""
        size = HEADER_BYTES + slots * _stride(slot_bytes)
        segment = Segment.create(name, size, grants=grants, directory=directory)
        try:
            return cls(segment, slots, slot_bytes)
        except BaseException:
            segment.close()
            raise

    @property
    def name(self) -> str:
        return self._segment.name

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Tell whether one slot can hold `tensors`."""
        return _total(tensors) <= self.slot_bytes

    def write(self, tensors: Mapping[str, Tensor], *, wait_s: float, holder: str) -> Payload:
        """Copy `tensors` into a free slot and return its descriptor.

        Waits up to `wait_s` seconds for a slot, then raises `NoFreeSlot`. `holder` is for that
        error's text: what the slot is used for, e.g. `request 17 of sim-0`.
        """
        plan = self._plan(tensors)
        slot, sequence = self._take(wait_s, holder)
        try:
            self._fill(slot, sequence, plan, tensors)
        except BaseException:
            # Nobody knows the slot yet.
            self.free(SlotRef(segment=self.name, slot=slot, sequence=sequence))
            raise
        return Payload(
            slot=SlotRef(segment=self.name, slot=slot, sequence=sequence), tensors=plan.refs
        )

    def free(self, slot: SlotRef) -> None:
        """Give a slot back: its reply has come. A slot that is not held so any more is left."""
        with self._changed:
            hold = self._held.get(slot.slot)
            if hold is None or hold.sequence != slot.sequence or hold.quarantined:
                return
            del self._held[slot.slot]
            self._free.append(slot.slot)
            self._changed.notify()

    def quarantine(self, slot: SlotRef) -> None:
        """Keep a slot out of use until `reset()`: its reply has not come."""
        with self._changed:
            hold = self._held.get(slot.slot)
            if hold is not None and hold.sequence == slot.sequence:
                self._held[slot.slot] = Hold(
                    holder=hold.holder, sequence=hold.sequence, since=hold.since, quarantined=True
                )

    def reset(self) -> None:
        """Take every slot back: the other side has said that it reads none of them any more."""
        with self._changed:
            self._free.extend(sorted(self._held, reverse=True))
            self._held.clear()
            self._changed.notify_all()

    @property
    def free_slots(self) -> int:
        return len(self._free)

    def close(self) -> None:
        """Remove the segment. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._plans.clear()
        self._bytes = None
        self._words.release()
        self._segment.close()

    def __enter__(self) -> Ring:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, wait_s: float, holder: str) -> tuple[int, int]:
        with self._changed:
            if not self._free and not self._changed.wait_for(
                lambda: bool(self._free), timeout=wait_s
            ):
                raise self._no_free_slot(wait_s)
            slot = self._free.pop()
            sequence = self._words[self._start(slot) // _WORD] + 2
            sequence -= sequence % 2
            self._held[slot] = Hold(holder=holder, sequence=sequence, since=time.monotonic())
            return slot, sequence

    def _plan(self, tensors: Mapping[str, Tensor]) -> Plan:
        key = tuple([(name, t.dtype.str, t.shape) for name, t in tensors.items()])
        plan = self._plans.get(key)
        if plan is not None:
            return plan
        plan = Plan(refs=_lay_out(tensors), nbytes=_total(tensors), targets={})
        if plan.nbytes > self.slot_bytes:
            raise TransportError(
                f"the tensors need {plan.nbytes} bytes; a slot of {self.name} holds "
                f"{self.slot_bytes}"
            )
        if len(self._plans) >= _REMEMBERED:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def _targets(self, plan: Plan, slot: int) -> tuple[Tensor, ...]:
        start = self._start(slot) + SLOT_HEADER_BYTES
        targets = tuple(
            np.ndarray(ref.shape, DTYPES[ref.dtype], buffer=self._bytes, offset=start + ref.offset)
            for ref in plan.refs
        )
        plan.targets[slot] = targets
        return targets

    def _fill(self, slot: int, sequence: int, plan: Plan, tensors: Mapping[str, Tensor]) -> None:
        word = self._start(slot) // _WORD
        targets = plan.targets.get(slot) or self._targets(plan, slot)
        self._words[word] = sequence - 1
        for target, tensor in zip(targets, tensors.values(), strict=True):
            np.copyto(target, tensor)
        self._words[word + _LENGTH_WORD] = plan.nbytes
        self._words[word + _TIME_WORD] = time.monotonic_ns()
        self._words[word] = sequence

    def _no_free_slot(self, wait_s: float) -> NoFreeSlot:
        oldest = min(self._held.values(), key=lambda hold: hold.since)
        age = time.monotonic() - oldest.since
        kept = sum(hold.quarantined for hold in self._held.values())
        return NoFreeSlot(
            f"all {self.slots} slots of {self.name} are held after {wait_s:.1f} s of waiting; the "
            f"oldest by {oldest.holder}, for {age:.1f} s ({kept} kept back after timeouts)",
            hint="Reset the worker's memory of this client, or start the worker again.",
        )

    def _start(self, slot: int) -> int:
        return HEADER_BYTES + slot * self._stride


class RingView:
    """The reading side. Trusts nothing it reads or is sent; may be used from any thread."""

    def __init__(self, view: SegmentView) -> None:
        self._view = view
        self._words = view.buffer[: view.size // _WORD * _WORD].cast("Q")
        # Every tensor is made of this array and not of the buffer: `np.ndarray(buffer=…)` takes no
        # lasting hold of a buffer, so close() would unmap what a living tensor looks into.
        self._bytes: NDArray[np.uint8] | None = np.frombuffer(view.buffer, np.uint8)
        self._known: dict[tuple[int, tuple[TensorRef, ...]], dict[str, Tensor]] = {}
        if view.size < HEADER_BYTES or tuple(self._words[0:2]) != (MAGIC, LAYOUT_VERSION):
            self.close()
            raise TransportError(f"the segment {view.name} does not hold a ring of this version")
        self.slots, self.slot_bytes, self._stride = self._words[2:5].tolist()
        if not self._is_sound():
            self.close()
            raise TransportError(f"the ring {view.name} says more than its {view.size} bytes hold")

    @classmethod
    def open(cls, name: str, *, search: Sequence[Path] = ()) -> RingView:
        """Map the ring `name`, read-only; see `SegmentView.open`."""
        return cls(SegmentView.open(name, search=search))

    @property
    def name(self) -> str:
        return self._view.name

    def read(self, payload: Payload) -> dict[str, Tensor]:
        """Return read-only arrays that look into the slot.

        They are good until the slot's reply is sent: call `check` after the last use. Raises
        `StaleFrame`, or `TransportError` for a descriptor that cannot be right.
        """
        start = self._start_of(payload)
        whole = self._bytes
        if whole is None:
            raise StaleFrame(f"the ring {self.name} is closed")
        if not self._view.is_whole():
            raise TransportError(f"the segment {self.name} was cut short by its owner")
        key = (start, payload.tensors)
        tensors = self._known.get(key)
        if tensors is None:
            tensors = {ref.name: self._tensor(ref, whole, start) for ref in payload.tensors}
            if len(tensors) != len(payload.tensors):
                raise TransportError(f"two tensors of one message have the same name: {payload}")
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = tensors
        self._check_sequence(payload, start)
        return tensors.copy()

    def check(self, payload: Payload) -> None:
        """Raise `StaleFrame` unless the slot still holds what `read` returned."""
        self._check_sequence(payload, self._start_of(payload))

    def owner_is_gone(self) -> bool:
        return self._view.owner_is_gone()

    def close(self) -> None:
        """Unmap. Arrays that `read` returned stay valid. May be called twice."""
        self._bytes = None
        self._known = {}
        self._words.release()
        self._view.close()

    def __enter__(self) -> RingView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _is_sound(self) -> bool:
        return (
            self.slots >= 1
            and self._stride % ALIGNMENT == 0
            and self._stride >= SLOT_HEADER_BYTES + self.slot_bytes
            and HEADER_BYTES + self.slots * self._stride <= self._view.size
        )

    def _start_of(self, payload: Payload) -> int:
        slot = payload.slot
        if slot is None or slot.segment != self.name:
            raise TransportError(f"the tensors are not in {self.name} but in {slot}")
        if not 0 <= slot.slot < self.slots:
            raise TransportError(f"{self.name} has {self.slots} slots; got slot {slot.slot}")
        if slot.sequence <= 0 or slot.sequence % 2:
            raise TransportError(f"{slot.sequence} is not the sequence of a finished slot")
        return HEADER_BYTES + slot.slot * self._stride

    def _check_sequence(self, payload: Payload, start: int) -> None:
        try:
            found = self._words[start // _WORD]
        except ValueError as error:
            raise StaleFrame(f"the ring {self.name} is closed") from error
        slot = payload.slot
        if slot is not None and found != slot.sequence:
            state = "is being written" if found % 2 else f"holds frame {found}"
            raise StaleFrame(
                f"slot {slot.slot} of {self.name} {state}; wanted frame {slot.sequence}: its "
                "sender gave it up and used it again"
            )

    def _tensor(self, ref: TensorRef, whole: NDArray[np.uint8], start: int) -> Tensor:
        dtype, nbytes = sized(ref)
        if ref.offset < 0 or ref.offset % ALIGNMENT or ref.offset + nbytes > self.slot_bytes:
            raise TransportError(
                f"tensor {ref.name!r} of {nbytes} bytes at offset {ref.offset} is outside its "
                f"slot of {self.slot_bytes} bytes, or not aligned to {ALIGNMENT}"
            )
        place = start + SLOT_HEADER_BYTES + ref.offset
        tensor: Tensor = np.ndarray(ref.shape, dtype, buffer=whole, offset=place)
        return tensor


def slot_bytes_for(shapes: Iterable[Sequence[int]], *, itemsize: int = 1) -> int:
    """Return what one slot must hold for tensors of these shapes; itemsize 1 is uint8."""
    return sum(_aligned(math.prod(shape) * itemsize) for shape in shapes)


def sized(ref: TensorRef) -> tuple[np.dtype[Any], int]:
    """Return dtype and bytes of `ref`, or raise `TransportError` for an impossible shape."""
    if len(ref.shape) > _MAX_DIMENSIONS or any(size < 1 for size in ref.shape):
        raise TransportError(f"tensor {ref.name!r} has the impossible shape {list(ref.shape)}")
    dtype = DTYPES[ref.dtype]
    # Python integers: a product that would overflow 64 bits is merely too large.
    return dtype, math.prod(ref.shape) * dtype.itemsize


def describe(tensors: Mapping[str, Tensor]) -> tuple[TensorRef, ...]:
    """Return the descriptors of tensors that travel as raw frames."""
    return tuple(_ref(name, tensor, 0) for name, tensor in tensors.items())


def _lay_out(tensors: Mapping[str, Tensor]) -> tuple[TensorRef, ...]:
    refs = []
    offset = 0
    for name, tensor in tensors.items():
        refs.append(_ref(name, tensor, offset))
        offset += _aligned(tensor.nbytes)
    return tuple(refs)


def _ref(name: str, tensor: Tensor, offset: int) -> TensorRef:
    kind = _WIRE_DTYPES.get(tensor.dtype.str)
    if kind is None or tensor.size == 0:
        raise TransportError(
            f"tensor {name!r} is {tensor.dtype} {list(tensor.shape)}; only uint8 and float32 "
            "tensors that are not empty can travel"
        )
    return TensorRef(name=name, dtype=kind, shape=tensor.shape, offset=offset)


def _total(tensors: Mapping[str, Tensor]) -> int:
    return sum([-(-tensor.nbytes // ALIGNMENT) * ALIGNMENT for tensor in tensors.values()])


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _stride(slot_bytes: int) -> int:
    return -(-(SLOT_HEADER_BYTES + slot_bytes) // PAGE) * PAGE


def _words_of(*values: int) -> memoryview:
    return memoryview(array("Q", values))
