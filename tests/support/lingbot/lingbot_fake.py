# SPDX-License-Identifier: Apache-2.0
"""The backend in front of a LingBot server without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lingbot_server import answer, lingbot_server
from numpy.typing import NDArray

from rpent_box.backends.lingbot.adapter import ADAPTERS
from rpent_box.backends.lingbot.connection import parse_address
from rpent_box.backends.lingbot.model import Lingbot, Server
from rpent_box.backends.lingbot.options import LingbotOptions


@contextmanager
def fake_backend(
    platform: str, *, spoil: Callable[[NDArray[Any]], NDArray[Any]] = lambda raw: raw
) -> Iterator[Lingbot]:
    """Give the backend as it speaks to a server of ours, whose noise it may seed."""

    def infer(question: dict[str, Any]) -> dict[str, Any]:
        reply = answer(question)
        if reply["action"] is not None:
            reply["action"] = spoil(reply["action"])
        return reply

    with lingbot_server(infer) as fake:
        server = Server(
            address=parse_address(fake.url),
            checkpoint="fake",
            provenance={"weights": "a fake"},
            takes_seeds=True,
        )
        backend = Lingbot(server, ADAPTERS[platform], LingbotOptions(connect_timeout_s=5.0))
        try:
            yield backend
        finally:
            backend.close()
