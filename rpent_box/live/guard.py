# SPDX-License-Identifier: Apache-2.0
"""Who may see what is served: this machine's own names, one token, and no writing.

A server on this machine's loopback can be reached by every program and every browser tab here. So
whatever is told has to be asked for with a token in a header, which no browser adds by itself: not
for another site's page, and not for a page on another port. A foreign `Host` is refused besides,
since a web site may point its own name at 127.0.0.1.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Container
from typing import TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_OWN_NAME = re.compile(r"(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?")
"""Any port: whoever forwards one over ssh may choose another."""
_log = logging.getLogger("rpent_box.live")

Refusal: TypeAlias = tuple[int, str]


class Guard:
    """An ASGI application around another one, which sees only what may pass."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        public: Container[str] = (),
        any_host: bool = False,
    ) -> None:
        """`public` are paths that need no `token`; None: nothing needs one.

        `any_host`: it is served beyond this machine, under names that we do not know.
        """
        self._app = app
        self._token = None if token is None else token.encode()
        self._public = public
        self._any_host = any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app = self._app
        refusal = self._refusal(scope)
        if refusal is not None:
            app = PlainTextResponse(refusal[1] + "\n", status_code=refusal[0])

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await app(scope, receive, guarded_send)
        except Exception:
            _log.exception("%s cannot be answered", scope["path"])
            raise

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if not self._any_host and _OWN_NAME.fullmatch(host) is None:
            return 403, (
                "This is for http://127.0.0.1 and http://localhost only. From another machine, "
                "forward the port: ssh -L PORT:127.0.0.1:PORT MACHINE"
            )
        if scope["method"] != "GET":
            return 405, "There is nothing to change here: only GET is answered."
        if self._token is None or scope["path"] in self._public:
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return None
        return 403, "Open the address that rpent-box printed: it carries a token."

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token or b"")
