# SPDX-License-Identifier: Apache-2.0
"""How long a batch should wait for company: `python benchmarks/batching/run.py [--served]`.

Without `--served` on a counted clock, which takes half a minute; with it through a real worker
process too, whose model sleeps, which takes ten minutes. See README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

from batching_served import serve
from batching_simulation import Workload
from batching_trial import FIXED_MS, Trial, trial
from batching_workloads import MODELS, PAUSES, workloads

ROUNDS = 3
SERVED = [
    ("batch free", 2, "quick"),
    ("batch free", 8, "quick"),
    ("batch free", 16, "steady"),
    ("even", 8, "steady"),
    ("small, free", 16, "quick"),
    ("no gain", 8, "quick"),
]


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--served", action="store_true", help="through a real worker too")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of each served workload and wait"
    )
    asked = parser.parse_args(words)
    _simulated(range(asked.seeds))
    if asked.served:
        _served(asked.seconds)
    return 0


def _simulated(seeds: Sequence[int]) -> None:
    waits = "".join(f"{f'{ms} ms':>8}" for ms in FIXED_MS)
    print("counted clock, predictions per second; p99 in milliseconds, best fixed and tuned")
    print(
        f"{'':30}{'ceiling':>8}{waits}{'tuned':>8}{'of best':>9}{'p99':>7}{'tuned':>7}{'batch':>7}"
    )
    trials = []
    for load in workloads((1, 2, 4, 8, 16)):
        trials.append(trial(load, predictions=60, seeds=seeds))
        print(_line(trials[-1]), flush=True)
    shares = [one.of_best for one in trials]
    print(f"of the best fixed wait: at worst {min(shares):.1%}, on average ", end="")
    print(f"{sum(shares) / len(shares):.1%}, at best {max(shares):.1%}")


def _line(one: Trial) -> str:
    rates = "".join(f"{one.fixed_hz[ms]:8.1f}" for ms in FIXED_MS)
    best_p99_ms = 1000 * min(one.fixed_p99_s.values())
    return (
        f"{one.load.name:30}{one.load.ceiling_hz():8.1f}{rates}{one.tuned_hz:8.1f}"
        f"{one.of_best:9.1%}{best_p99_ms:7.0f}{1000 * one.tuned_p99_s:7.0f}{one.tuned_batch:7.1f}"
    )


def _served(seconds: float) -> None:
    waits = "".join(f"{f'{ms} ms':>15}" for ms in FIXED_MS)
    print("\nreal worker, predictions per second / p99 in milliseconds")
    print(f"{'':24}{waits}{'tuned':>15}{'of best':>9}{'busy':>7}{'gather':>8}{'idle':>7}")
    for model, clients, pause in SERVED:
        fixed_s, each_s = MODELS[model]
        name = f"{model}, {clients} {pause}"
        load = Workload(name, clients, PAUSES[pause], fixed_s, each_s)
        # In rounds, so that a change in the machine's load meets all of them.
        rounds = [
            [serve(load, ms, warm_up_s=2.0, seconds=seconds) for ms in (*FIXED_MS, None)]
            for _ in range(ROUNDS)
        ]
        rates = [median(one.rate_hz for one in wait) for wait in zip(*rounds, strict=True)]
        p99s = [median(one.p99_s for one in wait) for wait in zip(*rounds, strict=True)]
        cells = "".join(
            f"{rate:8.1f} /{1000 * p99_s:5.0f}" for rate, p99_s in zip(rates, p99s, strict=True)
        )
        figures = rounds[-1][-1].figures
        shares = (figures.busy_s, figures.gathering_s, figures.idle_s)
        turns = "".join(f"{share / figures.ready_s:8.0%}" for share in shares)
        print(f"{name:24}{cells}{rates[-1] / max(rates[:-1]):9.1%}{turns}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
