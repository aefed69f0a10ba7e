# SPDX-License-Identifier: Apache-2.0
"""Pickle with a length in front, over one kept TCP connection. Fast, and unsafe to listen with."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from typing import Any

from benchmarks.transport.cases import Actions, Case, Images, answer_to

_LENGTH = struct.Struct("<Q")


def serve(host: str) -> None:
    """Answer until killed. Prints the address once it is bound."""
    with socket.create_server((host, 0)) as server:
        print(f"{host}:{server.getsockname()[1]}", flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_converse, args=(connection,), daemon=True).start()


def _converse(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (images := _receive(connection)) is not None:
        _send(connection, answer_to(images))


class Client:
    """One kept connection."""

    def __init__(self, address: str, case: Case) -> None:
        host, port = address.rsplit(":", 1)
        self._connection = socket.create_connection((host, int(port)))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, images: Images) -> Actions:
        """Send one observation, return its chunk."""
        _send(self._connection, images)
        actions: Actions = _receive(self._connection)
        return actions

    def close(self) -> None:
        self._connection.close()


def _send(connection: socket.socket, value: object) -> None:
    data = pickle.dumps(value, protocol=5)
    connection.sendall(_LENGTH.pack(len(data)))
    connection.sendall(data)


def _receive(connection: socket.socket) -> Any:  # noqa: ANN401
    head = _read(connection, _LENGTH.size)
    if head is None:
        return None
    data = _read(connection, _LENGTH.unpack(head)[0])
    # Both ends are this benchmark, on one machine.
    return None if data is None else pickle.loads(data)  # noqa: S301


def _read(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return data
