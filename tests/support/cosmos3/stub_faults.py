# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a worker and its service, each as a fault of the stub."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable

from sglang_stub import Body, Fault, Handler


def changed(change: Callable[[Body], None]) -> Fault:
    """Return a fault that sends the stub's own answer after `change` was applied to it."""

    def fault(handler: Handler, answer: Body) -> None:
        change(answer)
        handler.reply(200, answer)

    return fault


def said(status: int, body: Body) -> Fault:
    """Return a fault that answers with `status` and `body`."""
    return lambda handler, answer: handler.reply(status, body)


def raw(status: int, body: bytes, kind: str = "application/json") -> Fault:
    """Return a fault that answers with these bytes."""
    return lambda handler, answer: handler.reply_raw(status, body, kind)


def reordered(handler: Handler, answer: Body) -> None:
    answer["data"].reverse()
    handler.reply(200, answer)


def slow(handler: Handler, answer: Body) -> None:
    """Say nothing until the stub ends."""
    handler.stub.ending.wait(60)
    handler.cut()


def dripping(handler: Handler, answer: Body) -> None:
    """Send a byte now and then, never the whole: each read is in time, the answer is not."""
    body = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    for place in range(len(body)):
        handler.wfile.write(body[place : place + 1])
        handler.wfile.flush()
        if handler.stub.ending.wait(0.02):
            return


def dropped(handler: Handler, answer: Body) -> None:
    handler.cut()


def dropped_in_the_middle(handler: Handler, answer: Body) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"object": "action.generation", "data": [')
    handler.wfile.flush()
    handler.cut()


def reset(handler: Handler, answer: Body) -> None:
    """End the connection as a killed process does."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.cut()


def endless(handler: Handler, answer: Body) -> None:
    """Send without end."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    while not handler.stub.ending.is_set():
        handler.wfile.write(b" " * 65536)


def horizon(steps: int) -> Fault:
    """Return a fault whose answers have `steps` steps: cut, or with more of the last one."""

    def change(answer: Body) -> None:
        for record in answer["data"]:
            values = record["action"]["values"]
            values = (values + [values[-1]] * steps)[:steps]
            record["action"] |= {"values": values, "shape": [steps, len(values[0])]}

    return changed(change)


def number(value: object) -> Fault:
    """Return a fault that puts `value` into step 3, column 4 of the last record."""

    def change(answer: Body) -> None:
        answer["data"][-1]["action"]["values"][3][4] = value

    return changed(change)
