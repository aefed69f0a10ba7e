# SPDX-License-Identifier: Apache-2.0
"""Run by a Python that has the model's package: its own server class, and its own client class.

lingbot_upstream.py serve       the package's server with a fake policy, on a free port
lingbot_upstream.py ask PORT    the package's client: prints, as JSON, what it was told
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from typing import Any

import numpy as np

IMAGES = ("cam_high", "cam_left_wrist", "cam_right_wrist")


def observation() -> dict[str, Any]:
    """Return one that both sides of the test can make."""
    rng = np.random.default_rng(3)
    return {
        **{
            f"observation.images.{camera}": rng.integers(0, 256, (24, 32, 3), np.uint8)
            for camera in IMAGES
        },
        "observation.state": rng.normal(size=16).astype(np.float32),
        "task": "stack the blocks ☃",
    }


class FakePolicy:
    """Answers from the observation and from noise; does as the instruction says."""

    def infer(self, observation: dict[str, Any]) -> dict[str, Any]:
        if observation.get("reset"):
            return {"action": None}
        order, _, argument = observation["task"].partition(" ")
        if order == "raise":
            raise ValueError("the fake policy raised on request")
        if order == "sleep":
            time.sleep(float(argument))
        return {"action": chunk_of(observation) + np.random.uniform(0, 1e-3, (50, 16))}


def chunk_of(observation: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    seed = 0
    for name in sorted(observation):
        value = observation[name]
        raw = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        seed = zlib.crc32(raw, zlib.crc32(name.encode(), seed))
    return np.random.default_rng(seed).uniform(0.1, 1.0, (50, 16)).astype(np.float32)


def serve_fake_policy() -> None:
    """Serve as a server of ours does, but for the model."""
    import torch

    from rpent_box.backends.lingbot.server import SeededPolicy, serve

    serve(SeededPolicy(FakePolicy(), torch.manual_seed), use_length=50, port=0)


def ask(port: int) -> None:
    """Greet, reset, and ask once with the package's client."""
    from deploy.websocket_client_policy import WebsocketClientPolicy

    client = WebsocketClientPolicy("127.0.0.1", port)
    client.reset("aloha")
    action = client.infer(observation())["action"]
    told = {"metadata": client.get_server_metadata(), "action": action.tolist()}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve_fake_policy()
    else:
        ask(int(sys.argv[2]))
