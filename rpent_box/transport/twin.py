# SPDX-License-Identifier: Apache-2.0
"""Both channels without sockets or shared memory, for tests: the same classes over queues.

Everything is encoded and decoded as on a real wire, so what the structs refuse is refused here.

    twin = Twin()
    server = twin.server              # in the thread that serves
    client = twin.client("test")      # in another: it says hello and waits for the welcome
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

import msgspec

from rpent_box.contracts.messages import Reply, Request
from rpent_box.errors import DeadlineExceeded, PeerGone, ProtocolMismatch
from rpent_box.transport.client_channel import ClientChannel
from rpent_box.transport.faults import refusal
from rpent_box.transport.server_channel import ServerChannel
from rpent_box.transport.wire import Frame, Letter, flat

ENDPOINT = "twin://here"

_Parcel = tuple[bytes, list[memoryview]]


class Twin:
    """A worker's wire and any number of clients' wires in one process."""

    def __init__(self) -> None:
        self.router = TwinRouter()
        self.server = ServerChannel(self.router)

    def dealer(self) -> TwinDealer:
        """Return a new connection, before any hello."""
        return TwinDealer(self.router)

    def client(self, name: str = "twin", *, timeout_s: float = 5.0) -> ClientChannel:
        """Connect. Another thread must answer the hello."""
        return ClientChannel(self.dealer(), client=name, box=None, timeout_s=timeout_s)


class TwinRouter:
    """The serving side: one inbox, one outbox per connection."""

    endpoint = ENDPOINT

    def __init__(self) -> None:
        self.closed = False
        self._inbox: queue.Queue[tuple[bytes, _Parcel] | None] = queue.Queue()
        self._outboxes: dict[bytes, queue.Queue[_Parcel | None]] = {}
        self._lock = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(Request)

    def receive(self, timeout_s: float) -> Letter[Request] | None:
        """Return the next message, or None after `timeout_s` seconds or a `wake`."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                item = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if item is None:
                return None
            connection, (envelope, frames) = item
            try:
                return Letter(connection, self._decoder.decode(envelope), frames)
            except msgspec.MsgspecError as error:
                self.send(connection, refusal(envelope, str(error)))

    def send(self, connection: bytes, answer: Reply, frames: Sequence[Frame] = ()) -> bool:
        """Hand over one message; False when that connection is gone."""
        outbox = self._outboxes.get(connection)
        if outbox is None:
            return False
        outbox.put((msgspec.msgpack.encode(answer), _frozen(frames)))
        return True

    def wake(self) -> None:
        """Make `receive` return None."""
        self._inbox.put(None)

    def close(self) -> None:
        """End as a process ends: every client learns of it."""
        with self._lock:
            self.closed = True
            for outbox in self._outboxes.values():
                outbox.put(None)

    def join(self) -> tuple[bytes, queue.Queue[_Parcel | None]]:
        """Open a connection; return its id and what will arrive on it."""
        with self._lock:
            if self.closed:
                raise PeerGone(f"nothing listens at {ENDPOINT}: its program has ended")
            connection = b"\0" + (len(self._outboxes) + 1).to_bytes(4, "big")
            outbox: queue.Queue[_Parcel | None] = queue.Queue()
            self._outboxes[connection] = outbox
            return connection, outbox

    def leave(self, connection: bytes) -> None:
        """Close a connection from the client's side; its id is not used again."""
        with self._lock:
            self._outboxes[connection] = queue.Queue()

    def deliver(self, connection: bytes, envelope: bytes, frames: list[memoryview]) -> None:
        """Put one raw message into the inbox."""
        self._inbox.put((connection, (envelope, frames)))


class TwinDealer:
    """The connecting side."""

    endpoint = ENDPOINT

    def __init__(self, router: TwinRouter) -> None:
        self._router = router
        self.connection, self._arrivals = router.join()
        self._decoder = msgspec.msgpack.Decoder(Reply)

    def send(self, question: Request, frames: Sequence[Frame] = ()) -> None:
        """Hand over one message."""
        self.send_raw(msgspec.msgpack.encode(question), frames)

    def send_raw(self, envelope: bytes, frames: Sequence[Frame] = ()) -> None:
        """Hand over any bytes at all, as a stranger might."""
        if self._router.closed:
            raise PeerGone(f"the program at {ENDPOINT} has ended")
        self._router.deliver(self.connection, envelope, _frozen(frames))

    def receive(self, deadline: float) -> tuple[Reply, list[memoryview]]:
        """Return the next message; see `wire.Asking.receive` for what it raises."""
        try:
            parcel = self._arrivals.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty as error:
            raise DeadlineExceeded(f"no answer from {ENDPOINT} in time") from error
        if parcel is None:
            self._arrivals.put(None)
            raise PeerGone(f"the program at {ENDPOINT} has ended")
        try:
            return self._decoder.decode(parcel[0]), parcel[1]
        except msgspec.MsgspecError as error:
            raise ProtocolMismatch(f"{ENDPOINT} sent what cannot be read: {error}") from error

    def close(self) -> None:
        """Hang up. May be called twice."""
        self._router.leave(self.connection)


def _frozen(frames: Sequence[Frame]) -> list[memoryview]:
    """Copy, as a wire does: what the sender changes later must not show."""
    return [memoryview(bytes(flat(frame))) for frame in frames]
