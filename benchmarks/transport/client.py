# SPDX-License-Identifier: Apache-2.0
"""The asking process: `python -m benchmarks.transport.client LINE ADDRESS`.

Reads one order per line (`{"case": 0, "calls": 100, "pace_s": 0.005}`) and answers each with one
line of measured seconds. It is a process of its own so that malloc can be tuned for it alone.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

from benchmarks.transport.cases import CASES, Images, check

WARM_UP_CALLS = 3


def main() -> None:
    """Measure as ordered until the input ends."""
    line, address = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.transport.lines.{line}")
    clients: dict[int, Any] = {}
    images = [case.images() for case in CASES]
    for text in sys.stdin:
        order = json.loads(text)
        case = order["case"]
        if case not in clients:
            clients[case] = module.Client(address, CASES[case])
        seconds = measure(clients[case], images[case], order["calls"], order["pace_s"])
        print(json.dumps(seconds), flush=True)
    for client in clients.values():
        client.close()


def measure(client: Any, images: Images, calls: int, pace_s: float) -> list[float]:  # noqa: ANN401
    """Return the seconds of each call, after a few that do not count."""
    for _ in range(WARM_UP_CALLS):
        client.ask(images)
    seconds = []
    first = next(iter(images.values()))
    for call in range(calls):
        # Another answer for each call, so that an old one is not taken for the new one.
        first[0, 0, 0] = call % 256
        if pace_s:
            time.sleep(pace_s)
        started = time.perf_counter()
        actions = client.ask(images)
        seconds.append(time.perf_counter() - started)
        if actions is not None:
            check(actions, images)
    return seconds


if __name__ == "__main__":
    main()
