# SPDX-License-Identifier: Apache-2.0
"""A thread that serves over HTTP beside an evaluation, and takes nothing from it.

Whoever can connect may be up to no good. So there are only so many connections, each of which has
to ask for something soon, and h11 bounds the size of what it asks: neither descriptors nor memory
nor threads of the evaluation run out.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from types import TracebackType
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from rpent_box.errors import SocketBusy
from rpent_box.live.guard import Guard

LOOPBACK = "127.0.0.1"
START_S = 10.0
CLOSE_S = 2.0
LEAVE_S = 0.5
"""For open answers to end by themselves."""
MOST_CONNECTIONS = 64
"""A browser has at most 6."""
PATIENCE_S = 10.0
"""A connection over which nothing is asked for so long is closed."""


class Server:
    """Serves `app`, behind a guard, while its block runs. close() may be called twice."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        what: str,
        host: str = LOOPBACK,
        port: int = 0,
        token: str | None = None,
        public: Container[str] = (),
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Listen at `host`, for `token` and `public` see `Guard`. Raises `SocketBusy`.

        `what` is for errors; `on_close` is called on the event loop, to end answers that last.
        """
        self._what = what
        self._socket = _bound(what, host, port)
        address, self.port = self._socket.getsockname()[:2]
        self._host = f"[{host}]" if ":" in host else host
        is_here = address == "::1" or address.startswith("127.")
        self._app = Guard(app, token=token, public=public, any_host=not is_here)
        self._on_close = on_close
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"http://{self._host}:{self.port}"

    def __enter__(self) -> Server:
        self._thread.start()
        deadline = time.monotonic() + START_S
        while self._server is None or not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                self.close()
                raise SocketBusy(f"{self._what} cannot be served at {self.url}: it did not start")
            time.sleep(0.005)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let answers end, and stop. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._server is not None:
            self._server.should_exit = True
        if self._loop is not None:
            # The loop may have ended in between.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_close)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        config = uvicorn.Config(
            self._app,
            http=_Line,
            access_log=False,
            # Nothing of a request is logged.
            log_config=None,
            log_level="critical",
            lifespan="off",
            ws="none",
            server_header=False,
            # Whole seconds only: `_Line` ends sooner.
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        await self._server.serve(sockets=[self._socket])


class _Line(H11Protocol):
    """One connection: uvicorn itself takes any number of them, and waits forever for a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(PATIENCE_S, self._look_again, None)

    def shutdown(self) -> None:
        super().shutdown()
        # Somebody who takes no bytes must not keep the evaluation from ending.
        self.loop.call_later(LEAVE_S, self.transport.abort)

    def _look_again(self, known: RequestResponseCycle | None) -> None:
        if self.transport.is_closing():
            return
        # Its type says that there always is one.
        now = cast("RequestResponseCycle | None", self.cycle)
        if now is known and (now is None or now.response_complete):
            self.transport.abort()
        else:
            self.loop.call_later(PATIENCE_S, self._look_again, now)


def _bound(what: str, host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SocketBusy(
            f"{what} cannot be served at {host}:{port}: {reason}",
            hint="Give an address of this machine and another port, or port 0 for any.",
        ) from error
    return listener
