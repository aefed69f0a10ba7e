# SPDX-License-Identifier: Apache-2.0
"""Asking the dashboard as a program would: any header, any method, no token by itself."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    headers: dict[str, str]
    """Names in small letters."""
    body: bytes


def ask(url: str, path: str | None = None, *, method: str = "GET", **headers: str) -> Answer:
    """Ask for `path` at the server of `url`, or for `url` itself."""
    parts = urlsplit(url)
    wanted = path if path is not None else parts.path
    line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        line.putrequest(method, wanted, skip_host="Host" in headers)
        for name, value in headers.items():
            line.putheader(name.replace("_", "-"), value)
        line.endheaders()
        answer = line.getresponse()
        body = answer.read()
    finally:
        line.close()
    return Answer(
        status=answer.status,
        headers={name.lower(): value for name, value in answer.getheaders()},
        body=body,
    )


def token_of(url: str) -> str:
    return urlsplit(url).fragment.removeprefix("token=")
