# SPDX-License-Identifier: Apache-2.0
"""A client's end of the line to a worker: questions out, answers back, frames through a ring."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TypeAlias, TypeVar

import msgspec

from rpent_box.contracts.faults import error_from
from rpent_box.contracts.messages import (
    Fault,
    Hello,
    Payload,
    Predicted,
    Reply,
    ReplyBody,
    Request,
    RequestBody,
    ResetSession,
    SlotRef,
    VlaPredict,
    VlaReset,
    WamPredict,
    WamReset,
    Welcome,
)
from rpent_box.errors import DeadlineExceeded, ProtocolMismatch, TransportError
from rpent_box.transport.dealer import Dealer
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import Ring, RingView, Tensor, describe, slot_bytes_for
from rpent_box.transport.tensors import from_frames
from rpent_box.transport.wire import Asking, Frame
from rpent_box.version import PROTOCOL_VERSION

SLOTS = 4
"""One is in use at a time; the others stand in for those that a timeout keeps back."""

Wire: TypeAlias = Asking[Request, Reply]
Body = TypeVar("Body")

_RESETS = (WamReset, VlaReset, ResetSession)
_REPLIES = msgspec.msgpack.Decoder(Reply)


class ClientChannel:
    """One connection to one worker. One question at a time; belongs to one thread.

    A context manager; close() may be called twice. After `PeerGone` it is of no more use: connect
    again.
    """

    welcome: Welcome
    """What the worker said of itself when we connected."""

    def __init__(self, wire: Wire, *, client: str, box: BoxPaths | None, timeout_s: float) -> None:
        """Say hello over a finished `wire`. Closes it when the worker does not welcome us."""
        self.endpoint = wire.endpoint
        self.client = client
        self._wire = wire
        self._box = box
        self._segment = box.segment_name(_segment_client(client)) if box else None
        self._ring: Ring | None = None
        self._results: RingView | None = None
        self._release: list[SlotRef] = []
        self._last_id = 0
        self.shown: Payload | None = None
        """Where in the ring the tensors of the last request with any are. They stay until the next
        one, for onlookers only: the slot counts as free. None: they travelled as raw frames."""
        try:
            self.welcome = self._say_hello(timeout_s)
        except BaseException:
            wire.close()
            raise

    @classmethod
    def connect(
        cls, endpoint: str, *, client: str, box: BoxPaths | None, timeout_s: float
    ) -> ClientChannel:
        """Connect and exchange hellos within `timeout_s` seconds.

        `client` is for logs and errors. With a `box`, tensors travel through a ring of our own in
        shared memory; with None as raw frames. Does not wait for a worker to appear. Raises
        `PeerGone` when nobody listens, `ProtocolMismatch`, or `DeadlineExceeded`.
        """
        started = time.monotonic()
        wire: Wire = Dealer.connect(endpoint, answers=_REPLIES, timeout_s=timeout_s)
        left_s = timeout_s - (time.monotonic() - started)
        return cls(wire, client=client, box=box, timeout_s=max(0.001, left_s))

    def reserve(self, shapes: Iterable[Sequence[int]], *, slots: int = SLOTS) -> None:
        """Make the ring now, for uint8 images of these shapes: `SharedMemoryFull` comes early.

        Otherwise the first request that carries tensors makes it, for tensors of their sizes.
        Does nothing without a box.
        """
        self._make_ring(slot_bytes_for(shapes), slots)

    def request(
        self,
        body: RequestBody,
        *,
        timeout_s: float,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> tuple[ReplyBody, dict[str, Tensor]]:
        """Ask, and return the answer with copies of the tensors that came with it.

        Only predictions carry `tensors`: uint8 or float32, one per name. Raises what a `Fault`
        says, `DeadlineExceeded` (the slot stays out of use until the worker confirms a reset),
        `PeerGone`, or `NoFreeSlot`.
        """
        deadline = time.monotonic() + timeout_s
        self._last_id += 1
        payload, frames = self._pack(tensors)
        if tensors:
            self.shown = payload if payload.slot else None
        answered = False
        try:
            released = self._send(body, payload, frames, timeout_s)
            reply, frames_back = self._await_reply(deadline)
            answered = True
        except DeadlineExceeded as error:
            raise DeadlineExceeded(
                f"{type(body).__name__}: no answer from {self.endpoint} within {timeout_s:.1f} s",
                hint="It may be busy or frozen: look into its log, allow more time "
                "(--prediction-timeout), or start it again.",
            ) from error
        finally:
            self._settle(payload.slot, answered=answered)
        del self._release[:released]
        if isinstance(body, _RESETS) and not isinstance(reply, Fault):
            self.reset_ring()
        return _raised(reply), self._unpack(reply, frames_back)

    def reset_ring(self) -> None:
        """Use every slot again. Only when the worker reads none of them any more."""
        if self._ring is not None:
            self._ring.reset()

    def close(self) -> None:
        """Hang up and remove the ring. The worker notices by itself. May be called twice."""
        self._wire.close()
        if self._ring is not None:
            self._ring.close()
        if self._results is not None:
            self._results.close()

    def __enter__(self) -> ClientChannel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _say_hello(self, timeout_s: float) -> Welcome:
        hello = Hello(protocol=PROTOCOL_VERSION, client=self.client, segment=self._segment)
        try:
            reply, _ = self.request(hello, timeout_s=timeout_s)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(
                f"no hello came back from {self.endpoint} within {timeout_s:.1f} s",
                hint="Does an rpent-box worker listen there, and does it still run?",
            ) from error
        if not isinstance(reply, Welcome):
            raise ProtocolMismatch(f"{self.endpoint} answered a hello with {reply}")
        if reply.protocol != PROTOCOL_VERSION:
            raise ProtocolMismatch(
                f"{self.endpoint} speaks protocol {reply.protocol}, we speak {PROTOCOL_VERSION}",
                hint="Build both images from one release of rpent-box.",
            )
        return reply

    def _pack(self, tensors: Mapping[str, Tensor] | None) -> tuple[Payload, Sequence[Frame]]:
        if not tensors:
            return Payload(), ()
        if self._segment is not None and self._ring is None:
            self._make_ring(slot_bytes_for([t.shape + (t.itemsize,) for t in tensors.values()]))
        if self._ring is None or not self._ring.fits(tensors):
            return Payload(tensors=describe(tensors)), tuple(tensors.values())
        holder = f"request {self._last_id} of {self.client}"
        # Only our own reset gives a slot back: there is nothing to wait for.
        return self._ring.write(tensors, wait_s=0.0, holder=holder), ()

    def _make_ring(self, slot_bytes: int, slots: int = SLOTS) -> None:
        if self._box is not None and self._segment is not None and self._ring is None:
            self._ring = Ring.create(
                self._segment, slots=slots, slot_bytes=slot_bytes, grants=self._box.grants
            )

    def _send(
        self, body: RequestBody, payload: Payload, frames: Sequence[Frame], timeout_s: float
    ) -> int:
        """Send `body` with its payload; return how many result slots it gives back."""
        released = 0
        if isinstance(body, WamPredict | VlaPredict):
            released = len(self._release)
            body = msgspec.structs.replace(body, payload=payload, release=tuple(self._release))
        elif payload.tensors:
            raise TransportError(f"{type(body).__name__} carries no tensors")
        request = Request(id=self._last_id, timeout_s=timeout_s, body=body)
        self._wire.send(request, frames)
        return released

    def _await_reply(self, deadline: float) -> tuple[ReplyBody, list[memoryview]]:
        while True:
            reply, frames = self._wire.receive(deadline)
            # A fault without an id answers what the other side could not read.
            if reply.id == self._last_id or (reply.id == 0 and isinstance(reply.body, Fault)):
                return reply.body, frames
            # Late: its request was given up. Only its result slot still matters.
            if isinstance(reply.body, Predicted) and reply.body.payload.slot is not None:
                self._release.append(reply.body.payload.slot)

    def _settle(self, slot: SlotRef | None, *, answered: bool) -> None:
        if slot is None or self._ring is None:
            return
        if answered:
            self._ring.free(slot)
        else:
            self._ring.quarantine(slot)

    def _unpack(self, reply: ReplyBody, frames: Sequence[memoryview]) -> dict[str, Tensor]:
        if not isinstance(reply, Predicted) or not reply.payload.tensors:
            return {}
        payload = reply.payload
        if payload.slot is None:
            return {name: view.copy() for name, view in from_frames(payload, frames).items()}
        view = self._result_view(payload.slot.segment)
        # Whatever becomes of the copy, the slot is not looked at again.
        self._release.append(payload.slot)
        copies = {name: tensor.copy() for name, tensor in view.read(payload).items()}
        view.check(payload)
        return copies

    def _result_view(self, segment: str) -> RingView:
        if self._results is not None and self._results.name == segment:
            return self._results
        if self._box is None or not self._box.owns_segment(segment):
            raise TransportError(f"the worker named a segment outside this box: {segment!r}")
        if self._results is not None:
            self._results.close()
        self._results = RingView.open(segment, search=[self._box.results])
        return self._results


def _raised(reply: ReplyBody) -> ReplyBody:
    if isinstance(reply, Fault):
        raise error_from(reply)
    return reply


def _segment_client(client: str) -> str:
    """Two clients may choose one name; their segments may not."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', client)[:40]}-{secrets.token_hex(4)}"
