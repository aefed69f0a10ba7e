# SPDX-License-Identifier: Apache-2.0
"""RLDX's own server, with noise that is drawn anew from a seed for each prediction, and a token.

    python -m rpent_box.backends.rldx.seeded_server --model-path DIR --port N [its own options]

The upstream server draws its noise from torch's generator and has no option for a seed. This is
that server, except that an option `noise_seed` of a prediction seeds the generator before it, and
that it answers nobody without the token in its environment, which its command line cannot set.
"""

from __future__ import annotations

import os
from typing import Any

NOISE_SEED = "noise_seed"
TOKEN = "RPENT_BOX_RLDX_TOKEN"
"""The variable that holds what each question must bring along."""


def seeded(server: type[Any], seed_all: Any, token: str | None = None) -> type[Any]:  # noqa: ANN401 - upstream has no types
    """Return upstream's server class, whose predictions are seeded. `seed_all` takes the number.

    With `token` it answers nobody else (rldx/policy/server_client.py, `_validate_token`).
    """

    class SeededServer(server):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
            super().__init__(*arguments, **named)
            self.api_token = token

        def register_endpoint(self, name: str, handler: Any, requires_input: bool = True) -> None:  # noqa: ANN401, FBT001, FBT002
            if name == "get_action":
                handler = _seeding(handler, seed_all)
            super().register_endpoint(name, handler, requires_input)

    return SeededServer


def _seeding(predict: Any, seed_all: Any) -> Any:  # noqa: ANN401
    def get_action(observation: Any, options: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
        if options and NOISE_SEED in options:
            seed_all(int(options[NOISE_SEED]))
            options = {name: value for name, value in options.items() if name != NOISE_SEED}
        return predict(observation, options)

    return get_action


def main() -> None:
    """Parse upstream's own command line and serve until the process is ended."""
    import torch
    import tyro
    from rldx.eval import run_rldx_server as upstream

    token = os.environ.pop(TOKEN, None)
    upstream.PolicyServer = seeded(upstream.PolicyServer, torch.manual_seed, token)
    upstream.main(tyro.cli(upstream.ServerConfig))


if __name__ == "__main__":
    main()
