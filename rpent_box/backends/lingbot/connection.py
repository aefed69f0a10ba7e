# SPDX-License-Identifier: Apache-2.0
"""One connection to a LingBot server: a greeting, then a question and an answer at a time."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from msgspec import Struct
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from rpent_box.backends.lingbot.wire import BadFrame, pack, unpack
from rpent_box.errors import BadOption, DeadlineExceeded, PredictionFailed

LARGEST_FRAME = 64 * 1024 * 1024
"""An answer is a few kilobytes; a greeting less."""
LONGEST_TRACEBACK = 20_000
"""Characters of a server's traceback that travel on, from its end."""
LONGEST_LINE = 500
_ADDRESS = re.compile(r"ws://(\[[0-9a-fA-F:]+\]|[^/:\s\[\]]+):(\d{1,5})/?")


class ServerAddress(Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ws://{host}:{self.port}"


def parse_address(text: str) -> ServerAddress:
    """Return the address in `ws://HOST:PORT`. Raises `BadOption`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise BadOption(
            f"the service {text!r} is no address of a LingBot server",
            hint="Give it as ws://HOST:PORT, e.g. --service ws://127.0.0.1:8006",
        )
    return ServerAddress(match[1].strip("[]"), int(match[2]))


class Connection:
    """An open connection, for one thread. Not usable any more after an error: connect again.

    An answer that comes too late would be taken for that of the next question.
    """

    def __init__(
        self,
        address: ServerAddress,
        *,
        connect_timeout_s: float,
        reply_timeout_s: float,
    ) -> None:
        """Connect and read the greeting. Raises `PredictionFailed`, `DeadlineExceeded`."""
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._reply_timeout_s = reply_timeout_s
        deadline = time.monotonic() + connect_timeout_s
        self._closing = ExitStack()
        self._socket = self._closing.enter_context(_open(address, connect_timeout_s))
        self.greeting = self._read(deadline, connect_timeout_s, "greet")

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it, as far as is known here."""
        return self._socket.state is State.OPEN

    def ask(self, message: Mapping[str, Any]) -> dict[Any, Any]:
        """Send one question and return its answer.

        Raises `PredictionFailed` when the server's model raised (with its traceback), or when the
        server is gone or speaks otherwise; `DeadlineExceeded`. The connection is closed then.
        """
        deadline = time.monotonic() + self._reply_timeout_s
        try:
            self._socket.send(pack(message))
        except ConnectionClosed as error:
            self.close()
            if isinstance(error.__cause__, BlockingIOError):
                raise _too_late(self.address, self._connect_timeout_s, "take a question") from error
            raise _closed(self.address, error) from error
        return self._read(deadline, self._reply_timeout_s, "answer")

    def close(self) -> None:
        """Close, without waiting for the server's consent. May be called twice."""
        # The closing handshake would wait for a server that is busy with its model.
        self._socket.close_timeout = 0
        self._closing.close()

    def _read(self, deadline: float, allowed_s: float, what: str) -> dict[Any, Any]:
        try:
            frame = self._socket.recv(timeout=max(0.0, deadline - time.monotonic()))
            if isinstance(frame, str):
                raise _traceback(self.address, frame)
            return unpack(frame)
        except TimeoutError as error:
            self.close()
            raise _too_late(self.address, allowed_s, what) from error
        except ConnectionClosed as error:
            self.close()
            raise _closed(self.address, error) from error
        except BadFrame as error:
            self.close()
            raise PredictionFailed(
                f"the LingBot server at {self.address.url} sent what cannot be read: {error}"
            ) from error
        except PredictionFailed:
            self.close()
            raise


def is_healthy(host: str, port: int, *, timeout_s: float = 1.0) -> bool:
    """Return whether GET /healthz is answered with OK."""
    asked = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        asked.request("GET", "/healthz")
        reply = asked.getresponse()
        return reply.status == http.client.OK and reply.read(16).strip() == b"OK"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asked.close()


def _open(address: ServerAddress, timeout_s: float) -> ClientConnection:
    try:
        raw = socket.create_connection((address.host, address.port), timeout=timeout_s)
        # Reads wait as long as nobody asks. The library's own sends would as well: they get a limit
        # from the kernel, or a server that stands still would hold us.
        raw.settimeout(None)
        seconds, rest = divmod(timeout_s, 1.0)
        # Zero would be no limit.
        limit = struct.pack("ll", int(seconds), max(1, int(rest * 1e6)))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        return connect(
            address.url,
            sock=raw,
            open_timeout=timeout_s,
            close_timeout=timeout_s,
            # It may be busy with its model for longer than a ping would wait.
            ping_interval=None,
            compression=None,
            max_size=LARGEST_FRAME,
            proxy=None,
        )
    except (OSError, WebSocketException) as error:
        raise PredictionFailed(
            f"there is no LingBot server at {address.url}: {error}",
            hint=f"Does it run? Ask it: curl http://{address.url.removeprefix('ws://')}/healthz",
        ) from error


def _too_late(address: ServerAddress, allowed_s: float, what: str) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"the LingBot server at {address.url} did not {what} within {allowed_s:g} s",
        hint="Allow it more time with --reply-timeout-s and --connect-timeout-s.",
    )


def _closed(address: ServerAddress, error: ConnectionClosed) -> PredictionFailed:
    return PredictionFailed(
        f"the LingBot server at {address.url} closed the connection: {error}",
        hint="Its own log says why.",
    )


def _traceback(address: ServerAddress, text: str) -> PredictionFailed:
    """Return the error for a text frame, which is a traceback of the server's."""
    lines = text.strip().splitlines() or ["no words"]
    return PredictionFailed(
        f"the model at {address.url} raised {lines[-1][:LONGEST_LINE]}",
        hint="The server's traceback: --verbose shows it here.",
        detail=text[-LONGEST_TRACEBACK:],
    )
