# SPDX-License-Identifier: Apache-2.0
"""HTTP with base64 in JSON, on one kept connection without Nagle's delay: its best case."""

from __future__ import annotations

import base64
import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from benchmarks.transport.cases import Actions, Case, Images, answer_to


class Handler(BaseHTTPRequestHandler):
    """Answers one observation."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        images = {name: _to_array(value) for name, value in json.loads(body)["images"].items()}
        answer = json.dumps({"actions": answer_to(images).tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401
        """Say nothing: printing a line per request is not part of the line."""


def serve(host: str, handler: type[Handler] = Handler) -> None:
    """Answer until killed. Prints the address once it is bound."""
    server = ThreadingHTTPServer((host, 0), handler)
    print(f"{host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


class Client:
    """One kept connection."""

    def __init__(self, address: str, case: Case) -> None:
        self._connection = http.client.HTTPConnection(address)

    def ask(self, images: Images) -> Actions:
        """Send one observation, return its chunk."""
        self._connection.request("POST", "/", pack(images), {"Content-Type": "application/json"})
        return unpack(self._connection.getresponse().read())

    def close(self) -> None:
        self._connection.close()


def pack(images: Images) -> bytes:
    """Return the body of a request."""
    fields = {name: _to_map(image) for name, image in images.items()}
    return json.dumps({"images": fields}).encode()


def unpack(body: bytes) -> Actions:
    """Read the body of an answer."""
    return np.array(json.loads(body)["actions"], np.float32)


def _to_map(image: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"data": base64.b64encode(image).decode(), "shape": image.shape}


def _to_array(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(value["data"]), np.uint8).reshape(value["shape"])
