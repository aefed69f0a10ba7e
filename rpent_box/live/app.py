# SPDX-License-Identifier: Apache-2.0
"""What the dashboard answers: the page, its files, how everything stands, frames, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.resources import files

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from rpent_box.live.cameras import Cameras
from rpent_box.live.metrics import metrics_route
from rpent_box.live.state import LiveState

EVERY_S = 1.0
MOST_DIGITS = 18
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/asking.js": ("asking.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/views.js": ("views.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The same for everybody, so that they need no token."""


class Pages:
    """The dashboard's answers. All but frames and metrics are given on its own event loop."""

    def __init__(self, state: LiveState, cameras: Cameras) -> None:
        self._state = state
        self._cameras = cameras
        self._closing = asyncio.Event()
        folder = files("rpent_box.live") / "page"
        self._files = {
            path: ((folder / name).read_bytes(), kind) for path, (name, kind) in PAGE_FILES.items()
        }

    def app(self) -> Starlette:
        """Return the application, without any guard around it."""
        return Starlette(
            routes=[
                *(Route(path, self._file, methods=["GET"]) for path in self._files),
                Route("/events", self._events, methods=["GET"]),
                Route("/state.json", self._state_json, methods=["GET"]),
                Route("/frames/{simulator:path}/{role}", self._frame, methods=["GET"]),
                metrics_route(self._state),
            ]
        )

    def close(self) -> None:
        """Tell every page that this was all. Call it on the event loop."""
        self._closing.set()

    async def _file(self, request: Request) -> Response:
        content, kind = self._files[request.url.path]
        return Response(content, headers={"Content-Type": kind})

    async def _state_json(self, request: Request) -> Response:
        return Response(self._encoded(), media_type="application/json")

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="application/x-ndjson")

    async def _stream(self) -> AsyncIterator[bytes]:
        """Yield how everything stands, a line each second, and at the end once more."""
        while not self._closing.is_set():
            yield self._encoded() + b"\n"
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), EVERY_S)
        yield self._encoded() + b"\n"

    def _frame(self, request: Request) -> Response:
        """Answer with a JPEG, or with 204 when there is none but the one that is known."""
        after = request.query_params.get("after", "")[:MOST_DIGITS]
        shot = self._cameras.shot(
            request.path_params["simulator"],
            request.path_params["role"],
            after=int(after) if after.isascii() and after.isdigit() else 0,
        )
        if shot is None:
            return Response(status_code=204)
        return Response(shot.jpeg, media_type="image/jpeg", headers={"X-Shot": str(shot.number)})

    def _encoded(self) -> bytes:
        # JSON of msgspec has no line breaks within.
        return msgspec.json.encode(self._state.picture())
