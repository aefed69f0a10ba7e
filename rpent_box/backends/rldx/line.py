# SPDX-License-Identifier: Apache-2.0
"""A ZeroMQ REQ socket that can be asked again after a timeout, and tells when its peer is gone."""

from __future__ import annotations

import struct
import weakref
from typing import Any

import zmq

from rpent_box.errors import PeerGone
from rpent_box.transport.sockets import configure, probe

_EVENT = struct.Struct("=Hi")
"""The first frame of a monitor's message: event, value (zmq_socket_monitor(3))."""
LARGEST_ANSWER = 64 * 2**20
"""Bytes. An answer takes a few kilobytes; ZeroMQ hangs up on who sends more than this."""


class Line:
    """One connection. Never reconnects: a server that came back remembers nothing of us.

    Raises `PeerGone` when nobody listens at `endpoint` now, and `ProtocolMismatch` when it is no
    ZeroMQ socket that does. close() may be called twice.
    """

    def __init__(self, endpoint: str, *, timeout_s: float) -> None:
        probe(endpoint, timeout_s=timeout_s)
        self._endpoint = endpoint
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.REQ)
        configure(socket, endpoint)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_ANSWER)
        socket.setsockopt(zmq.REQ_RELAXED, 1)
        socket.setsockopt(zmq.REQ_CORRELATE, 1)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        monitor: zmq.Socket[Any] = socket.get_monitor_socket(zmq.Event.DISCONNECTED)
        self._hang_up = weakref.finalize(self, _hang_up, context, socket, monitor)
        socket.connect(endpoint)
        self._socket = socket
        self._monitor = monitor
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(monitor, zmq.POLLIN)
        self._is_whole = True

    def is_whole(self) -> bool:
        """Tell whether the peer is there, as far as the kernel knows."""
        while self._monitor.poll(0):
            event, _ = _EVENT.unpack(self._monitor.recv_multipart()[0])
            self._is_whole = self._is_whole and not event & zmq.Event.DISCONNECTED
        return self._is_whole

    def send(self, request: bytes) -> None:
        """Hand over a question; the answer to an earlier one is dropped, should it still come."""
        try:
            self._socket.send(request, flags=zmq.DONTWAIT)
        except zmq.Again as error:
            raise PeerGone(f"{self._endpoint} takes no more messages") from error

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the answer; None when there is none yet. Raises `PeerGone`."""
        ready = dict(self._poller.poll(max(1, int(timeout_s * 1000))))
        if self._socket in ready:
            return self._socket.recv()
        if not self.is_whole():
            # What arrived before the peer ended still counts.
            if self._socket.poll(0):
                return self._socket.recv()
            raise PeerGone(
                f"the RLDX server at {self._endpoint} has ended, or its machine is unreachable",
                hint="Start it again; what it remembered of any session is lost.",
            )
        return None

    def close(self) -> None:
        """Close at once."""
        self._hang_up()


def _hang_up(
    context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], monitor: zmq.Socket[Any]
) -> None:
    socket.disable_monitor()
    socket.close(linger=0)
    monitor.close(linger=0)
    context.term()
