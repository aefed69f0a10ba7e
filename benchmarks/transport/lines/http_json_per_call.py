# SPDX-License-Identifier: Apache-2.0
"""HTTP with base64 in JSON, one connection per call: `urllib` to `http.server`, as RPent does."""

from __future__ import annotations

import urllib.request

from benchmarks.transport.cases import Actions, Case, Images
from benchmarks.transport.lines import http_json


class _Handler(http_json.Handler):
    protocol_version = "HTTP/1.0"


def serve(host: str) -> None:
    """Answer until killed. Prints the address once it is bound."""
    http_json.serve(host, _Handler)


class Client:
    """Connects anew for each call."""

    def __init__(self, address: str, case: Case) -> None:
        self._url = f"http://{address}/"
        # Without the proxies that the environment may name.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, images: Images) -> Actions:
        """Send one observation, return its chunk."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, http_json.pack(images), headers)
        with self._opener.open(request, timeout=60.0) as answer:
            return http_json.unpack(answer.read())

    def close(self) -> None:
        self._opener.close()
