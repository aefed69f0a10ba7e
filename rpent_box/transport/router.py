# SPDX-License-Identifier: Apache-2.0
"""The bound side over ZeroMQ: a ROUTER that answers what it cannot read and is never fooled
into sharing a path."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Generic

import msgspec
import zmq

from rpent_box.errors import SocketBusy, TransportError
from rpent_box.transport.paths import check_endpoint, ipc_path, is_ipc
from rpent_box.transport.sockets import BindGuard, configure
from rpent_box.transport.wire import Answer, Frame, Letter, Question, flat, poll_ms

Refuse = Callable[[bytes, str], Answer]
"""Makes the answer to an envelope that cannot be read, from its bytes and the reason."""


class Router(Generic[Question, Answer]):
    """Receives `Question` structs and sends `Answer` structs, with raw frames behind them.

    Belongs to one thread, except `wake`. A context manager; close() may be called twice.
    """

    def __init__(
        self,
        endpoint: str,
        socket: zmq.Socket[bytes],
        questions: msgspec.msgpack.Decoder[Question],
        refuse: Refuse[Answer],
        life: ExitStack,
    ) -> None:
        self.endpoint = endpoint
        """As bound: a port asked for as 0 has become a real one."""
        self._socket = socket
        self._questions = questions
        self._refuse = refuse
        self._life = life
        self._encoder = msgspec.msgpack.Encoder()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        life.callback(os.close, self._bell)
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self._bell, select.POLLIN)
        self._closed = False

    @classmethod
    def bind(
        cls,
        endpoint: str,
        *,
        questions: msgspec.msgpack.Decoder[Question],
        refuse: Refuse[Answer],
    ) -> Router[Question, Answer]:
        """Bind to exactly `endpoint`, or raise `SocketBusy`. `tcp://host:0` takes a free port."""
        check_endpoint(endpoint)
        with ExitStack() as undo:
            if is_ipc(endpoint):
                undo.enter_context(BindGuard.take(ipc_path(endpoint)))
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            # term() waits until ZeroMQ has unlinked its path; only then may the guard let go.
            undo.callback(context.term)
            socket = context.socket(zmq.ROUTER)
            undo.callback(socket.close, 0)
            configure(socket, endpoint)
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            bound = _bind(socket, endpoint)
            return cls(bound, socket, questions, refuse, undo.pop_all())

    def receive(self, timeout_s: float) -> Letter[Question] | None:
        """Return the next message, or None after `timeout_s` seconds or a `wake`.

        A message that cannot be read is answered here and never seen by the caller.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            ready = dict(self._poller.poll(poll_ms(left_s)))
            if self._socket in ready:
                letter = self._read()
                if letter is not None:
                    return letter
            elif self._bell in ready:
                os.eventfd_read(self._bell)
                return None
            if time.monotonic() >= deadline:
                return None

    def send(self, connection: bytes, answer: Answer, frames: Sequence[Frame] = ()) -> bool:
        """Hand over one message; False when the connection is gone or reads nothing any more."""
        envelope = self._encoder.encode(answer)
        parts = [connection, envelope, *(flat(frame) for frame in frames)]
        try:
            self._socket.send_multipart(parts, flags=zmq.DONTWAIT, copy=not frames)
        except zmq.ZMQError as error:
            if error.errno in (errno.EHOSTUNREACH, errno.EAGAIN):
                return False
            raise
        return True

    def wake(self) -> None:
        """Make `receive` return None. From any thread, until close()."""
        os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Unbind and remove the socket file. May be called twice."""
        if not self._closed:
            self._closed = True
            self._life.close()

    def __enter__(self) -> Router[Question, Answer]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Letter[Question] | None:
        connection = self._socket.recv()
        envelope = self._socket.recv() if self._socket.getsockopt(zmq.RCVMORE) else b""
        frames = []
        while self._socket.getsockopt(zmq.RCVMORE):
            frames.append(self._socket.recv(copy=False).buffer)
        try:
            return Letter(connection, self._questions.decode(envelope), frames)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.send(connection, self._refuse(envelope, str(error)))
            return None


def _bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        if error.errno == errno.EADDRINUSE:
            raise SocketBusy(
                f"{endpoint} is in use by another program",
                hint="Give another port, or port 0 for any free one.",
            ) from error
        raise TransportError(f"cannot bind {endpoint}: {error}") from error
    if is_ipc(endpoint):
        os.chmod(ipc_path(endpoint), 0o600)
        return endpoint
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)
