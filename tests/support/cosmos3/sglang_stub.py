# SPDX-License-Identifier: Apache-2.0
"""A service that speaks SGLang's action protocol and computes nothing: seeded numbers, and faults.

    with SGLangStub() as stub: ... stub.endpoint ...
    python sglang_stub.py --host 127.0.0.1 --port 30000 --model NAME

As in SGLang, all numbers of a request are drawn from its one seed in one piece, so that what an
input gets depends on its place and on how many there are. Standard library and numpy only: it also
runs in the worker's image.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import numpy as np

MODEL = "nvidia/cosmos3-test"
PADDED_ACTION_DIM = 64
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

Body = dict[str, Any]
Fault = Callable[["Handler", Body], None]
"""Answers in place of the stub, given what it would have answered."""


class Refused(Exception):
    """A request that SGLang refuses with status 400."""


class SGLangStub:
    """A running stub; a context manager. Keeps what it was asked."""

    def __init__(
        self,
        *,
        model: str = MODEL,
        model_path: str = "/models/cosmos3-test",
        max_batch: int = 1,
        host: str = "127.0.0.1",
        port: int = 0,
        release: str = "0.5.19",
    ) -> None:
        self.model = model
        self.model_path = model_path
        self.max_batch = max_batch
        self.release = release
        self.policy_family = "cosmos3"
        self.spoil: Callable[[np.ndarray], np.ndarray] = lambda raw: raw
        """Applied to each input's numbers [horizon, columns] before they are sent."""
        self.fault: Fault | None = None
        self.metadata_fault: Fault | None = None
        self.requests: list[Body] = []
        """Every body that came, parsed."""
        self.most_at_once = 0
        self.ending = threading.Event()
        """Set when the stub closes: what is slow stops being slow."""
        self._under_way = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((host, port), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def endpoint(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> SGLangStub:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @contextmanager
    def answering(self, request: Body) -> Iterator[None]:
        """Count `request` as under way within the block."""
        with self._lock:
            self.requests.append(request)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def metadata(self) -> Body:
        return {
            "object": "action.metadata",
            "model": self.model,
            "model_path": self.model_path,
            "policy_family": self.policy_family,
            "input": {
                "modalities": ["image", "video"],
                "supported_resolutions": [
                    [1280, 720], [720, 1280], [832, 480], [480, 832], [1024, 1024], [640, 640]
                ],
                "state_dim": None,
            },
            "output": {
                "action_type": "continuous",
                "action_horizon": 16,
                "action_dim": None,
                "padded_action_dim": PADDED_ACTION_DIM,
                "dtype": "float32",
            },
            "runtime": {
                "parallelism": {
                    "num_gpus": 1, "tp_size": 1, "sp_degree": 1, "ulysses_degree": 1,
                    "ring_degree": 1,
                }
            },
            "defaults": {
                "action_mode": "policy", "action_horizon": 16, "num_inference_steps": 35,
                "height": 480, "width": 832, "fps": 5,
            },
            "capabilities": {
                "action_modes": ["policy", "inverse_dynamics"],
                "realtime_websocket": True,
                "openpi_websocket": False,
                "batch_inputs": self.max_batch > 1,
                "max_batch_size": self.max_batch,
                "batched_action_modes": ["policy"],
                "multiple_candidates": False,
            },
        }  # fmt: skip

    def generate(self, request: Body) -> Body:
        """Return the answer to `request`. Raises `Refused`."""
        parameters = request.get("parameters") or {}
        prompts, images = _inputs(request, self.max_batch)
        horizon = _horizon(parameters)
        if not parameters.get("domain_name") and parameters.get("domain_id") is None:
            raise Refused("an action request needs domain_name or domain_id")
        width = parameters.get("raw_action_dim")
        if not isinstance(width, int) or not 0 < width <= PADDED_ACTION_DIM:
            raise Refused(f"raw_action_dim is {width}; it has no default in this domain")
        noise = np.random.default_rng(parameters["seed"]).standard_normal(
            (len(images), horizon, width)
        )
        chunks = [
            self.spoil(_chunk(noise[place], image, prompt))
            for place, (image, prompt) in enumerate(zip(images, prompts, strict=True))
        ]
        data = [
            {
                "index": place,
                "input_index": place,
                "candidate_index": 0,
                "action": {
                    "type": "continuous",
                    "dtype": "float32",
                    "shape": list(chunk.shape),
                    "values": chunk.tolist(),
                    "action_mode": "policy",
                    "domain_id": 5,
                    "raw_action_dim": width,
                },
            }
            for place, chunk in enumerate(chunks)
        ]
        return {
            "id": f"act_{len(self.requests)}",
            "object": "action.generation",
            "created": int(time.time()),
            "model": self.model,
            "data": data,
            "usage": {
                "batch_size": len(data),
                "action_horizon": horizon,
                "action_dim": width,
                "denoise_steps": parameters.get("num_inference_steps", 35),
                "prefix_cache_hit": False,
            },
        }


def _inputs(request: Body, max_batch: int) -> tuple[list[str], list[bytes]]:
    given = request.get("input") or {}
    images = given.get("input_reference")
    images = images if isinstance(images, list) else [images]
    if not images or not all(isinstance(image, str) for image in images):
        raise Refused("a policy needs an observation image")
    if len(images) > max_batch:
        raise Refused(f"{len(images)} inputs are more than --batching-max-size={max_batch}")
    prompts = given.get("prompt", "")
    prompts = prompts if isinstance(prompts, list) else [prompts] * len(images)
    if len(prompts) == 1:
        prompts = prompts * len(images)
    if len(prompts) != len(images):
        raise Refused(f"{len(prompts)} prompts for {len(images)} images")
    if len({len(prompt.split()) for prompt in prompts}) > 1:
        raise Refused("the prompts of one batch must come to the same number of tokens")
    return prompts, [_png(image) for image in images]


def _png(uri: str) -> bytes:
    data = base64.b64decode(uri.partition(",")[2])
    if not data.startswith(PNG_SIGNATURE):
        raise Refused("the image is no PNG")
    return data


def _horizon(parameters: Body) -> int:
    frames = int(parameters.get("num_frames", 17))
    if frames <= 1 or (frames - 1) % 4:
        raise Refused(f"num_frames is {frames}; one less must be divisible by 4")
    return frames - 1


def _chunk(noise: np.ndarray, image: bytes, prompt: str) -> np.ndarray:
    """Return float32 [horizon, columns] that depends on the noise, the picture and the prompt."""
    seen = zlib.crc32(image + prompt.encode()) / 2**32
    chunk: np.ndarray = (0.3 * noise + (seen - 0.5)).astype(np.float32)
    return chunk


class Handler(BaseHTTPRequestHandler):
    """What both kinds of question go through."""

    protocol_version = "HTTP/1.1"
    stub: SGLangStub

    def do_GET(self) -> None:  # noqa: N802 - the name is http.server's
        stub = self.stub
        if self.path == "/v1/actions/metadata":
            if stub.metadata_fault is not None:
                stub.metadata_fault(self, stub.metadata())
            else:
                self.reply(200, stub.metadata())
        elif self.path == "/server_info" and stub.release:
            self.reply(200, {"served_model_name": stub.model, "version": stub.release})
        elif self.path == "/health":
            self.reply(200, {"status": "ok"})
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:  # noqa: N802
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/v1/actions/generations":
            self.reply(404, {"detail": "Not Found"})
            return
        request = json.loads(raw)
        with self.stub.answering(request):
            self._answer(request)

    def _answer(self, request: Body) -> None:
        try:
            answer = self.stub.generate(request)
        except Refused as error:
            self.reply(400, {"detail": str(error)})
            return
        if self.stub.fault is not None:
            self.stub.fault(self, answer)
        else:
            self.reply(200, answer)

    def reply(self, status: int, body: Body) -> None:
        self.reply_raw(status, json.dumps(body).encode())

    def reply_raw(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def cut(self) -> None:
        """Hang up without another byte."""
        self.close_connection = True
        self.connection.close()

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):
            self.close_connection = True  # the other side, or a fault of ours, hung up

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the test sees `requests`."""


def _handler_of(stub: SGLangStub) -> type[Handler]:
    return type("StubHandler", (Handler,), {"stub": stub})


def png_size(uri: str) -> tuple[int, int]:
    """Return width and height of a PNG in a data URI, from its header."""
    with io.BytesIO(_png(uri)) as file:
        file.seek(16)
        width, height = struct.unpack(">II", file.read(8))
    return width, height


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--model", default=MODEL)
    arguments = parser.parse_args()
    with SGLangStub(model=arguments.model, host=arguments.host, port=arguments.port):
        threading.Event().wait()


if __name__ == "__main__":
    main()
