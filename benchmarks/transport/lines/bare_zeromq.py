# SPDX-License-Identifier: Apache-2.0
"""What this machine allows: one copy, and two small messages over a ZeroMQ that does nothing else.

No protocol, no checks, no answer computed. What rpent-box takes beyond this is its own doing; what
this takes is the machine's: its memory, and how fast it wakes a thread.
"""

from __future__ import annotations

import tempfile

import zmq

from benchmarks.transport.cases import ACTIONS_SHAPE, Actions, Case, Images
from benchmarks.transport.lines import memcpy

QUESTION = bytes(400)
ANSWER = bytes(4 * ACTIONS_SHAPE[0] * ACTIONS_SHAPE[1])
TIMEOUT_MS = 10_000


def serve(host: str) -> None:
    """Answer until killed. Prints the endpoint once it is bound."""
    with (
        tempfile.TemporaryDirectory(prefix="rpent-box-bench-") as folder,
        zmq.Context() as context,
        context.socket(zmq.ROUTER) as socket,
    ):
        socket.bind(f"ipc://{folder}/bare.sock")
        print(f"ipc://{folder}/bare.sock", flush=True)
        while True:
            connection, _ = socket.recv_multipart()
            socket.send_multipart([connection, ANSWER])


class Client:
    """Copies as the floor does, then asks for nothing."""

    def __init__(self, address: str, case: Case) -> None:
        self._copy = memcpy.Client(address, case)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
        self._socket.connect(address)

    def ask(self, images: Images) -> Actions | None:
        """Copy every image and wait for one small message; it answers nothing."""
        self._copy.ask(images)
        self._socket.send(QUESTION)
        self._socket.recv()
        return None

    def close(self) -> None:
        self._context.destroy(linger=0)
        self._copy.close()
