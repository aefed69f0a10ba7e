# SPDX-License-Identifier: Apache-2.0
"""The class that a server of ours is made of, in front of the tests' own server."""

from __future__ import annotations

import time
from typing import Any

from lingbot_server import lingbot_server


class WebsocketPolicyServer:
    """Takes what the real one takes."""

    def __init__(
        self, policy: Any, host: str = "0.0.0.0", port: int | None = None, metadata: Any = None
    ) -> None:
        self.policy = policy
        self.host = host
        self.port = port
        self.metadata = metadata

    def serve_forever(self) -> None:
        assert self.host == "127.0.0.1"
        with lingbot_server(self.policy.infer, metadata=self.metadata, port=self.port or 0):
            while True:
                time.sleep(60)
