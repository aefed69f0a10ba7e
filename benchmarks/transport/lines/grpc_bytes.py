# SPDX-License-Identifier: Apache-2.0
"""gRPC with one bytes message: a JSON line of names and shapes, then the pixels."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from benchmarks.transport.cases import ACTIONS_SHAPE, Actions, Case, Images, answer_to

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
METHOD = "/bench.Worker/Predict"


def serve(host: str) -> None:
    """Answer until killed. Prints the address once it is bound."""
    server = grpc.server(ThreadPoolExecutor(max_workers=1), options=UNLIMITED)
    handler = grpc.unary_unary_rpc_method_handler(
        lambda message, _: answer_to(_unpack(message)).tobytes()
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Worker", {"Predict": handler}),)
    )
    port = server.add_insecure_port(f"{host}:0")
    server.start()
    print(f"{host}:{port}", flush=True)
    server.wait_for_termination()


class Client:
    """One kept channel."""

    def __init__(self, address: str, case: Case) -> None:
        self._channel = grpc.insecure_channel(address, options=UNLIMITED)
        self._predict = self._channel.unary_unary(METHOD)

    def ask(self, images: Images) -> Actions:
        """Send one observation, return its chunk."""
        answer = self._predict(_pack(images), timeout=30.0)
        return np.frombuffer(answer, np.float32).reshape(ACTIONS_SHAPE)

    def close(self) -> None:
        self._channel.close()


def _pack(images: Images) -> bytes:
    head = json.dumps({name: image.shape for name, image in images.items()}).encode()
    parts = [len(head).to_bytes(4, "little"), head, *map(memoryview, images.values())]
    return b"".join(parts)


def _unpack(message: bytes) -> Images:
    length = int.from_bytes(message[:4], "little")
    images = {}
    start = 4 + length
    for name, shape in json.loads(message[4:start]).items():
        size = int(np.prod(shape))
        images[name] = np.frombuffer(message, np.uint8, size, start).reshape(shape)
        start += size
    return images
