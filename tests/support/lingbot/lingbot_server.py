# SPDX-License-Identifier: Apache-2.0
"""A LingBot server without a model: the same protocol, frame by frame, in threads of the test.

It has its own encoding of arrays, so that a mistake of the client's is not made twice.
"""

from __future__ import annotations

import http
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

METADATA: dict[str, Any] = {
    "runtime": "lingbotvla",
    "policy_name": "robotwin_eef",
    "camera_order": ["cam_high", "cam_left_wrist", "cam_right_wrist"],
    "state_layout": "eef16",
    "action_layout": "eef16",
    "use_length": 50,
}

Infer = Callable[[dict[str, Any]], Any]


def chunk_of(question: dict[str, Any], steps: int = 50) -> NDArray[np.float32]:
    """Return float32 [steps, 16] which depends on every entry of `question`, and on nothing else.

    Both quaternions are unit ones; the dependence is in the positions.
    """
    seed = 0
    for name in sorted(question):
        value = question[name]
        raw = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        seed = zlib.crc32(raw, zlib.crc32(name.encode(), seed))
    noise = np.random.default_rng(seed)
    chunk = noise.uniform(0.0, 1.0, (steps, 16)).astype(np.float32)
    for quaternion in (chunk[:, 3:7], chunk[:, 11:15]):
        quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return chunk


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Answer as the real policy does: a reset with nothing, an observation with a chunk."""
    if question.get("reset"):
        return {"action": None}
    return {"action": chunk_of(question)}


class LingbotServer:
    """What the tests look at."""

    def __init__(self, infer: Infer, metadata: Any) -> None:
        self.infer = infer
        self.metadata = metadata
        self.frames: list[bytes | str] = []
        """As they came."""
        self.questions: list[dict[str, Any]] = []
        """As they were meant."""
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def handle(self, connection: ServerConnection) -> None:
        self.connections += 1
        try:
            connection.send(_packed(self.metadata))
            before = None
            while True:
                began = time.monotonic()
                before = self._answer(connection, before, began)
        except ConnectionClosed:
            return
        except Exception:  # noqa: BLE001 - as the real one: whatever the policy raises
            connection.send(traceback.format_exc())
            connection.close(1011, "Internal server error. Traceback included in previous frame.")

    def _answer(self, connection: ServerConnection, before: float | None, began: float) -> float:
        frame = connection.recv()
        question = _unpacked(frame)
        self.frames.append(frame)
        self.questions.append(question)
        reply = self.infer(dict(question))
        if isinstance(reply, bytes | str):
            connection.send(reply)
        elif reply is None:
            connection.socket.close()
        else:
            timing = {"infer_ms": (time.monotonic() - began) * 1000}
            if before is not None:
                timing["prev_total_ms"] = before * 1000
            connection.send(_packed({**reply, "server_timing": timing}))
        return time.monotonic() - began


@contextmanager
def lingbot_server(
    infer: Infer = answer, *, metadata: Any = None, port: int = 0
) -> Iterator[LingbotServer]:
    """Serve on 127.0.0.1 while the block lasts.

    `infer` returns the reply: a map, or a raw frame (bytes or text), or None to cut the line.
    """
    fake = LingbotServer(infer, METADATA if metadata is None else metadata)
    with serve(
        fake.handle, "127.0.0.1", port, compression=None, max_size=None, process_request=_health
    ) as server:
        fake.port = server.socket.getsockname()[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            _stop(server, thread)


def _stop(server: Server, thread: threading.Thread) -> None:
    server.shutdown()
    thread.join(5.0)


def _health(connection: ServerConnection, request: Any) -> Any:
    if request.path == "/healthz":
        return connection.respond(http.HTTPStatus.OK, "OK\n")
    return None


def _packed(message: Any) -> bytes:
    def as_map(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return {
                b"__ndarray__": True,
                b"data": value.tobytes(),
                b"dtype": value.dtype.str,
                b"shape": value.shape,
            }
        return value

    packed: bytes = msgpack.packb(message, default=as_map)
    return packed


def _unpacked(frame: bytes | str) -> dict[str, Any]:
    def as_array(found: dict[Any, Any]) -> Any:
        if b"__ndarray__" in found:
            return np.ndarray(found[b"shape"], np.dtype(found[b"dtype"]), found[b"data"])
        return found

    question: dict[str, Any] = msgpack.unpackb(frame, object_hook=as_array)
    return question
