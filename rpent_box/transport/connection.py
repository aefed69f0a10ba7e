# SPDX-License-Identifier: Apache-2.0
"""What a worker keeps of one client, and how it reaches the tensors of one request."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence

from rpent_box.contracts.messages import Payload, Request, VlaPredict, WamPredict
from rpent_box.errors import SharedMemoryFull, StaleFrame, TransportError
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import Ring, RingView, Tensor, describe, slot_bytes_for
from rpent_box.transport.segment import segment_is_dead
from rpent_box.transport.tensors import from_frames
from rpent_box.transport.wire import Frame

RESULT_SLOTS = 3
"""The client copies one result out before it asks again; the others stand in for late replies."""
RESULT_RING_FROM_BYTES = 64 * 1024
"""Smaller results cost less as frames behind the envelope."""


class Connection:
    """What the channel knows of one client: its ring, and the ring of its results."""

    def __init__(self, segment: str | None, box: BoxPaths | None) -> None:
        self._segment = segment
        self._box = box
        self._view: RingView | None = None
        self._results: Ring | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._seen_unread = False
        """The last look found a ring that nothing has been read from."""

    def view(self) -> RingView:
        """Map the client's ring at its first use. Raises `TransportError`."""
        with self._lock:
            if self._closed:
                raise StaleFrame("the connection that these tensors came on is closed")
            if self._view is None:
                if self._segment is None or self._box is None:
                    raise TransportError("the hello of this connection named no segment")
                self._view = RingView.open(self._segment, search=[self._box.grants])
            return self._view

    def pack(self, tensors: Mapping[str, Tensor]) -> tuple[Payload, Sequence[Frame]]:
        """Put results where the client will find them: its result ring, else raw frames."""
        size = sum(tensor.nbytes for tensor in tensors.values())
        if size >= RESULT_RING_FROM_BYTES and self._segment is not None:
            ring = self._result_ring(tensors)
            if ring is not None and ring.free_slots and ring.fits(tensors):
                return ring.write(tensors, wait_s=0.0, holder="a result"), ()
        return Payload(tensors=describe(tensors)), tuple(tensors.values())

    def release(self, request: WamPredict | VlaPredict) -> None:
        """Free the result slots that the client has finished reading."""
        if self._results is not None:
            for slot in request.release:
                self._results.free(slot)

    def owner_is_gone(self) -> bool:
        """Tell whether this client's own ring shows that it has ended."""
        if self._view is not None:
            return self._view.owner_is_gone()
        return self._has_left_unread()

    def close(self) -> None:
        """Unmap the client's ring, remove its results. Tensors in use stay mapped."""
        with self._lock:
            self._closed = True
            if self._view is not None:
                self._view.close()
                self._view = None
        if self._results is not None:
            self._results.close()
            self._results = None

    def _has_left_unread(self) -> bool:
        """Tell whether a client that made its ring and never sent a tensor has ended.

        Its ring's lock is looked at from the second look on: the client takes it after it has made
        the file, and must not find us holding it.
        """
        if self._segment is None or self._box is None:
            return False
        path = self._box.grants / self._segment.lstrip("/")
        seen, self._seen_unread = self._seen_unread, path.exists()
        return seen and (not self._seen_unread or segment_is_dead(path))

    def _result_ring(self, tensors: Mapping[str, Tensor]) -> Ring | None:
        if self._results is None and self._box is not None:
            try:
                self._results = Ring.create(
                    self._box.segment_name(f"results-{secrets.token_hex(4)}"),
                    slots=RESULT_SLOTS,
                    slot_bytes=slot_bytes_for([t.shape + (t.itemsize,) for t in tensors.values()]),
                    directory=self._box.results,
                )
            except SharedMemoryFull:
                # A result must not fail for want of a fast road: frames carry it too.
                return None
        return self._results


class Incoming:
    """One request, and the way to the tensors that came with it."""

    def __init__(
        self,
        connection: bytes,
        request: Request,
        frames: Sequence[memoryview],
        source: Connection | None,
    ) -> None:
        self.connection = connection
        """Names the connection and so its session; not the client's to choose."""
        self.request = request
        self.frames = frames
        self.arrived = time.monotonic()
        self._source = source

    @property
    def deadline(self) -> float:
        """When the client stops waiting, on this process's `time.monotonic()`."""
        return self.arrived + self.request.timeout_s

    def tensors(self) -> dict[str, Tensor]:
        """Return the request's tensors as read-only arrays; from any thread.

        They look into the client's memory and are good until the reply is sent: copy what must
        live longer, and call `check` after the last use. Raises `StaleFrame` or `TransportError`.
        """
        payload = self._payload()
        if payload.slot is None:
            return from_frames(payload, self.frames)
        return self._client().view().read(payload)

    def check(self) -> None:
        """Raise `StaleFrame` unless the tensors are still what `tensors` returned."""
        payload = self._payload()
        if payload.slot is not None:
            self._client().view().check(payload)

    def _payload(self) -> Payload:
        body = self.request.body
        return body.payload if isinstance(body, WamPredict | VlaPredict) else Payload()

    def _client(self) -> Connection:
        if self._source is None:
            raise TransportError("this connection has not said hello")
        return self._source
