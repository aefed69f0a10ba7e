# SPDX-License-Identifier: Apache-2.0
"""Round trips of one observation and one action chunk, over rpent-box's transport and others'.

`python -m benchmarks.transport.run`; see README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.transport.cases import CASES
from benchmarks.transport.container import Skipped, start_pair_in_container
from benchmarks.transport.entrants import IN_PROCESSES, OURS_IN_CONTAINER, Pair, start_pair
from benchmarks.transport.report import PACES, Results, as_json, checks, tables
from rpent_box.launch.box import Box

ROUNDS = 5
MIN_CALLS = 8
MAX_CALLS = 400


def main() -> int:
    """Measure, print, and return 1 when a target was missed."""
    options = _parse()
    with ExitStack() as life:
        pairs, skipped = _start(options, life)
        labels = [pair.entrant.label for pair in pairs]
        results = measure(pairs, options.seconds)
    _print_machine()
    for line in tables(results, labels):
        print(line)
    with_container = OURS_IN_CONTAINER.label in labels
    found = checks(results, with_container=with_container)
    print("\nTargets (hot, p50)")
    for check in found:
        print(f"  {'met   ' if check.met else 'MISSED'}  {check.text}")
    if skipped:
        print(f"  not measured: the container ({skipped})")
    if options.json:
        document = {
            "results": as_json(results),
            "targets": [{"text": check.text, "met": check.met} for check in found],
            "container_skipped": skipped,
        }
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(check.met for check in found) else 1


def measure(pairs: Sequence[Pair], seconds: float) -> Results:
    """Return every cell, `seconds` each, in rounds that go through all lines by turns."""
    results: Results = defaultdict(list)
    for number, case in enumerate(CASES):
        print(f"measuring {case.name} …", file=sys.stderr, flush=True)
        typical = {pair.entrant.label: _typical(pair, number) for pair in pairs}
        for _ in range(ROUNDS):
            for pace, pace_s in PACES.items():
                for pair in pairs:
                    label = pair.entrant.label
                    budget = seconds / ROUNDS / (typical[label] + pace_s)
                    calls = int(min(MAX_CALLS, max(MIN_CALLS, budget)))
                    results[label, number, pace] += pair.measure(number, calls, pace_s)
    return results


def _typical(pair: Pair, case: int) -> float:
    return sorted(pair.measure(case, 5, 0.0))[2]


def _start(options: argparse.Namespace, life: ExitStack) -> tuple[list[Pair], str]:
    box = life.enter_context(Box.create())
    pairs = []
    for entrant in IN_PROCESSES:
        pairs.append(life.enter_context(start_pair(entrant, box.paths.worker_endpoint)))
    try:
        other = life.enter_context(Box.create()).paths
        pair = life.enter_context(start_pair_in_container(OURS_IN_CONTAINER, other, options.image))
    except Skipped as reason:
        return pairs, str(reason)
    return [*pairs[:2], pair, *pairs[2:]], ""


def _print_machine() -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {load}"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="per cell of the tables")
    parser.add_argument("--image", default=None, help="an image with python3 and rpent-box's core")
    parser.add_argument("--json", default=None, help="write everything to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
