# SPDX-License-Identifier: Apache-2.0
"""The connecting side over ZeroMQ: a DEALER that notices at once when its peer dies."""

from __future__ import annotations

import struct
import time
import weakref
from collections.abc import Sequence
from typing import Any, Generic

import msgspec
import zmq

from rpent_box.errors import DeadlineExceeded, PeerGone, ProtocolMismatch, TransportError
from rpent_box.transport.paths import check_endpoint
from rpent_box.transport.sockets import configure, probe
from rpent_box.transport.wire import Answer, Frame, Question, flat, poll_ms

_HANDSHAKE_FAILED = (
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)
_WATCHED = zmq.Event.DISCONNECTED | _HANDSHAKE_FAILED

_EVENT = struct.Struct("=Hi")
"""The first frame of a monitor's message: event, value (zmq_socket_monitor(3)).

Read here because `zmq.utils.monitor` imports asyncio, which every start would wait for.
"""


class Dealer(Generic[Question, Answer]):
    """Sends `Question` structs and receives `Answer` structs, with raw frames behind them.

    Belongs to one thread. Never reconnects: a server that came back remembers nothing of us, so
    the caller connects anew. A context manager; close() may be called twice. One that is never
    closed is closed when it is collected, or at the end of the process.
    """

    def __init__(
        self,
        endpoint: str,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        answers: msgspec.msgpack.Decoder[Answer],
    ) -> None:
        self.endpoint = endpoint
        self._socket = socket
        self._monitor: zmq.Socket[Any] = socket.get_monitor_socket(_WATCHED)
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._answers = answers
        self._encoder = msgspec.msgpack.Encoder()
        self._end: TransportError | None = None
        # A context that is collected before its socket waits for it, for ever.
        self._hang_up = weakref.finalize(self, _hang_up, context, socket, self._monitor)

    @classmethod
    def connect(
        cls, endpoint: str, *, answers: msgspec.msgpack.Decoder[Answer], timeout_s: float
    ) -> Dealer[Question, Answer]:
        """Connect to what listens at `endpoint` now.

        Does not wait for a socket to appear: nothing there is `PeerGone` at once. Raises
        `ProtocolMismatch` when something else listens.
        """
        check_endpoint(endpoint)
        probe(endpoint, timeout_s=timeout_s)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.DEALER)
        try:
            configure(socket, endpoint)
            socket.setsockopt(zmq.RECONNECT_IVL, -1)
            dealer = cls(endpoint, context, socket, answers)
            socket.connect(endpoint)
        except BaseException:
            context.destroy(linger=0)
            raise
        return dealer

    def send(self, question: Question, frames: Sequence[Frame] = ()) -> None:
        """Hand over one message; frames are not copied and must not change until the answer."""
        if self._end is not None:
            raise self._end
        parts = [self._encoder.encode(question), *(flat(frame) for frame in frames)]
        try:
            self._socket.send_multipart(parts, flags=zmq.DONTWAIT, copy=not frames)
        except zmq.Again as error:
            raise PeerGone(
                f"{self.endpoint} takes no more messages: it has ended, or reads none"
            ) from error

    def receive(self, deadline: float) -> tuple[Answer, list[memoryview]]:
        """Return the next message; see `Asking.receive` for what it raises."""
        while True:
            left_s = deadline - time.monotonic()
            ready = dict(self._poller.poll(poll_ms(left_s)))
            if self._socket in ready:
                return self._read()
            if self._monitor in ready:
                self._note_events()
            # What arrived before the peer ended still counts, so the socket is read first.
            if self._end is not None:
                if self._socket.poll(0):
                    return self._read()
                raise self._end
            if not ready and time.monotonic() >= deadline:
                raise DeadlineExceeded(f"no answer from {self.endpoint} in time")

    def close(self) -> None:
        """Close at once; what was not sent is dropped. May be called twice."""
        self._hang_up()

    def __enter__(self) -> Dealer[Question, Answer]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> tuple[Answer, list[memoryview]]:
        envelope = self._socket.recv()
        frames = []
        while self._socket.getsockopt(zmq.RCVMORE):
            frames.append(self._socket.recv(copy=False).buffer)
        try:
            return self._answers.decode(envelope), frames
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolMismatch(
                f"{self.endpoint} sent a message that this version cannot read: {error}",
                hint="Build both images from one release of rpent-box.",
            ) from error

    def _note_events(self) -> None:
        while self._monitor.poll(0):
            event, _ = _EVENT.unpack(self._monitor.recv_multipart()[0])
            if self._end is not None:
                continue
            if event & _HANDSHAKE_FAILED:
                self._end = ProtocolMismatch(f"what listens at {self.endpoint} is no rpent-box")
            else:
                self._end = PeerGone(f"the program at {self.endpoint} has ended")


def _hang_up(
    context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], monitor: zmq.Socket[Any]
) -> None:
    socket.disable_monitor()
    socket.close(linger=0)
    monitor.close(linger=0)
    context.term()
