# SPDX-License-Identifier: Apache-2.0
"""`python -m rpent_box.worker.health ENDPOINT`: is the worker there ready? For container engines.

Prints its state. Exit code 0 when it is ready, 1 when it is not or does not answer.
"""

from __future__ import annotations

import sys

from rpent_box.contracts.messages import Health, Healthz
from rpent_box.errors import RpentBoxError
from rpent_box.transport.channel import ClientChannel

ANSWER_S = 5.0


def main(words: list[str]) -> int:
    """Ask the worker at `words[0]`; return the exit code."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m rpent_box.worker.health ENDPOINT\n")
        return 2
    try:
        with ClientChannel.connect(
            words[0], client="health", box=None, timeout_s=ANSWER_S
        ) as channel:
            reply, _ = channel.request(Healthz(), timeout_s=ANSWER_S)
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    state = reply.state if isinstance(reply, Health) else "no health"
    sys.stdout.write(f"{state}\n")
    return 0 if state == "ready" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
