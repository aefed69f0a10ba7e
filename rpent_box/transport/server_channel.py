# SPDX-License-Identifier: Apache-2.0
"""A worker's end of every line: questions in, answers out, each client's ring read in place."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TypeAlias

import msgspec

from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import (
    GetFigures,
    Healthz,
    Hello,
    Payload,
    Reply,
    Request,
    VlaPredict,
    WamPredict,
)
from rpent_box.errors import ProtocolMismatch, RpentBoxError, TransportError
from rpent_box.transport.connection import Connection, Incoming
from rpent_box.transport.faults import other_protocol, refusal
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import Tensor
from rpent_box.transport.router import Router
from rpent_box.transport.wire import Frame, Serving
from rpent_box.version import PROTOCOL_VERSION

GENERATED_ID_BYTES = 5
"""A ROUTER's own connection ids: a zero byte and a number. Anything else is a client's word."""

Wire: TypeAlias = Serving[Request, Reply]

_REQUESTS = msgspec.msgpack.Decoder(Request)


class ServerChannel:
    """Every client's line into one worker. Belongs to one thread, except `wake`.

    The channel itself refuses what it cannot read, a hello of another protocol or with a segment
    of another box, and anything before the hello but a healthz and a question for figures. The
    worker answers all the rest, a good hello with a `Welcome`. A context manager; close() may be
    called twice.
    """

    def __init__(self, wire: Wire, *, box: BoxPaths | None = None) -> None:
        """Serve over a finished `wire`."""
        self.endpoint = wire.endpoint
        self._wire = wire
        self._box = box
        self._connections: dict[bytes, Connection] = {}

    @classmethod
    def bind(cls, endpoint: str, *, box: BoxPaths | None = None) -> ServerChannel:
        """Bind to exactly `endpoint`; `tcp://host:0` takes a free port. Raises `SocketBusy`.

        `box` is whose segments may be read; with None, tensors come as raw frames only.
        """
        wire: Wire = Router.bind(endpoint, questions=_REQUESTS, refuse=refusal)
        return cls(wire, box=box)

    @property
    def is_local(self) -> bool:
        """Whether only programs of this user on this machine can reach us."""
        return not self.endpoint.startswith("tcp://")

    def receive(self, timeout_s: float) -> Incoming | None:
        """Return the next request, or None after `timeout_s` seconds or a `wake`."""
        deadline = time.monotonic() + timeout_s
        while True:
            letter = self._wire.receive(max(0.0, deadline - time.monotonic()))
            if letter is None:
                return None
            try:
                return self._admit(letter.connection, letter.question, letter.frames)
            except RpentBoxError as error:
                self.send(letter.connection, Reply(id=letter.question.id, body=fault_from(error)))

    def send(self, connection: bytes, reply: Reply, frames: Sequence[Frame] = ()) -> bool:
        """Answer; False when that client is gone, and then everything kept for it is dropped."""
        if self._wire.send(connection, reply, frames):
            return True
        self.forget(connection)
        return False

    def pack(
        self, connection: bytes, tensors: Mapping[str, Tensor]
    ) -> tuple[Payload, Sequence[Frame]]:
        """Return the payload for a `Predicted` and the frames to `send` behind it.

        Large results go through a ring of ours when the client shares memory with us; its next
        request gives the slot back.
        """
        if not tensors:
            return Payload(), ()
        return self._connections.get(connection, Connection(None, None)).pack(tensors)

    def forget(self, connection: bytes) -> None:
        """Drop what is kept for a client: it closed, died or was idle. It may say hello again."""
        known = self._connections.pop(connection, None)
        if known is not None:
            known.close()

    def gone(self) -> list[bytes]:
        """Return the connections whose client has ended, as its ring's lock shows."""
        return [name for name, known in self._connections.items() if known.owner_is_gone()]

    def wake(self) -> None:
        """Make `receive` return None. From any thread, until close()."""
        self._wire.wake()

    def close(self) -> None:
        """Unbind, and remove every result ring. May be called twice."""
        for connection in list(self._connections):
            self.forget(connection)
        self._wire.close()

    def __enter__(self) -> ServerChannel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _admit(self, connection: bytes, request: Request, frames: Sequence[memoryview]) -> Incoming:
        body = request.body
        if len(connection) != GENERATED_ID_BYTES or connection[0] != 0:
            raise TransportError("a connection's id is chosen here; do not set a routing id")
        if isinstance(body, Hello):
            self._register(connection, body)
        known = self._connections.get(connection)
        if known is None and not isinstance(body, Healthz | GetFigures):
            raise ProtocolMismatch(f"{type(body).__name__} came before a hello")
        if known is not None and isinstance(body, WamPredict | VlaPredict):
            known.release(body)
        return Incoming(connection, request, frames, known)

    def _register(self, connection: bytes, hello: Hello) -> None:
        if hello.protocol != PROTOCOL_VERSION:
            raise other_protocol(hello.protocol)
        if hello.segment is not None:
            self._check_segment(hello.segment)
        self.forget(connection)
        self._connections[connection] = Connection(hello.segment, self._box)

    def _check_segment(self, segment: str) -> None:
        if self._box is None or not self.is_local:
            raise TransportError(
                f"{self.endpoint} reads no shared memory; got segment {segment!r}",
                hint="Connect without a box: tensors then travel as raw frames.",
            )
        if not self._box.owns_segment(segment):
            raise TransportError(
                f"the segment {segment!r} is not one of box {self._box.box}",
                hint=f"Wanted a name such as /rpent-box.{self._box.box}.client",
            )
