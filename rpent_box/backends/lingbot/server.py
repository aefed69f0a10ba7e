# SPDX-License-Identifier: Apache-2.0
"""`python -m rpent_box.backends.lingbot.server …`: the package's own server, on 127.0.0.1.

Runs where `rlinf-lingbotvla` is installed. It speaks the package's protocol, with one addition: a
question may hold `seed`, which seeds the noise of its answer.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from rpent_box.backends.lingbot.greeting import greeting

HOST = "127.0.0.1"


class Policy(Protocol):
    """The package's policy: observation in, chunk out."""

    def infer(self, observation: dict[str, Any]) -> dict[str, Any]: ...


class SeededPolicy:
    """Seeds the generators that the model draws its noise from, when it is told to."""

    def __init__(self, policy: Policy, seed_model: Callable[[int], object]) -> None:
        """`seed_model` seeds the framework's generators on every device: torch.manual_seed."""
        self._policy = policy
        self._seed_model = seed_model

    def infer(self, observation: dict[str, Any]) -> dict[str, Any]:
        seed = observation.pop("seed", None)
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed)
            self._seed_model(seed)
        return self._policy.infer(observation)


def main(words: Sequence[str] | None = None) -> int:
    """Load the checkpoint and serve until a signal ends the process."""
    arguments = _parse(sys.argv[1:] if words is None else words)
    import torch

    serve(SeededPolicy(_load(arguments), torch.manual_seed), arguments.use_length, arguments.port)
    return 0


def serve(policy: Policy, use_length: int, port: int) -> None:
    """Serve `policy` with the package's own server; port 0 is any free one."""
    from deploy.websocket_policy_server import WebsocketPolicyServer

    WebsocketPolicyServer(
        policy, host=HOST, port=port, metadata=greeting(use_length)
    ).serve_forever()


def _load(arguments: argparse.Namespace) -> Policy:
    # Imported here: it loads torch and seeds it.
    from deploy.lingbot_vla_policy import LingbotVLAServer

    policy: Policy = LingbotVLAServer(
        arguments.checkpoint,
        use_length=arguments.use_length,
        robot_norm_path=arguments.statistics,
        robot_config=arguments.robot_config,
        num_denoising_step=arguments.denoising_steps,
    )
    return policy


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--statistics", required=True)
    parser.add_argument("--robot-config", required=True)
    parser.add_argument("--use-length", type=int, required=True)
    parser.add_argument("--denoising-steps", type=int, default=10)
    parser.add_argument("--port", type=int, default=0)
    return parser.parse_args(list(words))


if __name__ == "__main__":
    sys.exit(main())
