# SPDX-License-Identifier: Apache-2.0
"""A websocket that carries msgpack with arrays as bytes: what openpi's client and server do."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import numpy as np
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.sync.client import connect

from benchmarks.transport.cases import Actions, Case, Images, answer_to


def serve(host: str) -> None:
    """Answer until killed. Prints the address once it is bound."""
    asyncio.run(_serve(host))


async def _serve(host: str) -> None:
    options: dict[str, Any] = {"compression": None, "max_size": None}
    async with serve_websocket(_converse, host, 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        print(f"{host}:{port}", flush=True)
        await server.serve_forever()


async def _converse(connection: ServerConnection) -> None:
    async for message in connection:
        images = msgpack.unpackb(message, object_hook=_to_array)
        await connection.send(msgpack.packb(answer_to(images), default=_to_map))


class Client:
    """One kept connection."""

    def __init__(self, address: str, case: Case) -> None:
        self._connection = connect(f"ws://{address}", compression=None, max_size=None)

    def ask(self, images: Images) -> Actions:
        """Send one observation, return its chunk."""
        self._connection.send(msgpack.packb(images, default=_to_map))
        actions: Actions = msgpack.unpackb(self._connection.recv(), object_hook=_to_array)
        return actions

    def close(self) -> None:
        self._connection.close()


def _to_map(array: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"data": array.tobytes(), "dtype": array.dtype.str, "shape": array.shape}


def _to_array(value: dict[str, Any]) -> Any:  # noqa: ANN401
    if "dtype" not in value:
        return value
    return np.frombuffer(value["data"], np.dtype(value["dtype"])).reshape(value["shape"])
