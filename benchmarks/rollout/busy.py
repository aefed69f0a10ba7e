# SPDX-License-Identifier: Apache-2.0
"""How busy 1 to 16 simulators keep a worker whose policy takes 100 ms: `make bench-busy`.

Policy and simulators are artificial: they sleep as long as they are told, so that two cores can
stand in for sixteen. Everything between them is rpent-box's own: an evaluation with a worker and
simulators as processes, 256x256 frames in shared memory, results on the disk. What is counted is
the time in which every simulator plays: from when the last one has begun to when the first one has
nothing left. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.rollout.lines.ours import let_children_find_artificial_programs
from benchmarks.rollout.report import machine
from benchmarks.rollout.work import CHUNK, STEPS
from rpent_box.contracts.control_messages import Progress
from rpent_box.contracts.messages import Figures, Histogram
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import run_evaluation
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.watcher import SilentEvalWatcher
from rpent_box.sim.results import EpisodeRow

INFER_S = 0.1
BUSY_WANTED = 0.9
COUNTS = (1, 2, 4, 8, 16)
PREDICTIONS = STEPS // CHUNK
"""In an episode."""


@dataclass
class Cell:
    """One count of simulators with one policy."""

    batch: int
    """Observations that an inference takes at most."""
    envs: int
    busy: float
    """Share of the time in which the worker infers."""
    per_minute: float
    """Episodes, while every simulator plays."""
    mean_batch: float
    queued_ms: tuple[float, float, float]
    """A prediction's time in the queue: mean, and upper bounds of median and 99th percentile."""
    answered_ms: float
    """From asking to answer as the simulators see it: mean."""
    transport_ms: float
    """Of this what is neither queue nor model: mean."""
    window_s: float
    load: float


class Observer(SilentEvalWatcher):
    """Keeps what was counted while every simulator played."""

    def __init__(self, envs: int) -> None:
        super().__init__()
        self._envs = envs
        self._playing: set[str] = set()
        self._left = 0
        self.figures: list[tuple[float, Figures]] = []
        self.rows: list[EpisodeRow] = []

    @property
    def _all_play(self) -> bool:
        return len(self._playing) == self._envs and self._left >= self._envs

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        if progress.steps > 0:
            self._playing.add(simulator)

    def on_begin(self, begun) -> None:
        self._left = len(begun.jobs)

    def on_episode(self, row: EpisodeRow) -> None:
        self._left -= 1
        if self._all_play:
            self.rows.append(row)

    def on_worker(self, place: str, figures: Figures) -> None:
        if self._all_play:
            self.figures.append((time.monotonic(), figures))


def main() -> int:
    """Measure, print, and return 1 when no count of simulators keeps the worker busy enough."""
    options = read_options()
    let_children_find_artificial_programs()
    cells = []
    for batch in options.batches:
        for envs in options.envs:
            cells.append(measure(batch, envs, options))
            print(f"batch {batch}, {envs} simulators: {cells[-1]}", file=sys.stderr, flush=True)
    print(
        f"policy {1e3 * INFER_S:.0f} ms per inference; simulator {1e3 * options.step_s:.0f} ms per "
        f"control step (+-{options.spread:.0%} per chunk of {CHUNK}), {options.reset_s:g} s per "
        f"reset; {machine()}"
    )
    for row in table(cells):
        print(row)
    is_met = True
    for batch in options.batches:
        most = max(cell.busy for cell in cells if cell.batch == batch)
        is_met = is_met and most >= BUSY_WANTED
        print(
            f"  {'met   ' if most >= BUSY_WANTED else 'MISSED'}  at most {batch} in an inference: "
            f"the worker is busy {most:.1%} of the time (wanted {BUSY_WANTED:.0%})"
        )
    if options.json:
        document = {"settings": vars(options), "cells": [asdict(cell) for cell in cells]}
        options.json.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0 if is_met else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--envs", type=int, nargs="+", default=COUNTS, help="simulators at once")
    add("--batches", type=int, nargs="+", default=(1, 4), help="observations per inference")
    add("--step-s", type=float, default=0.025, help="seconds of a control step")
    add("--reset-s", type=float, default=0.4, help="seconds of a reset")
    add("--spread", type=float, default=0.2, help="how far a chunk's time is off its mean")
    add("--seconds", type=float, default=20.0, help="that every simulator plays in each cell")
    add("--quick", action="store_true", help="three cells of ten seconds")
    add("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    if options.quick:
        options.envs, options.batches, options.seconds = (1, 4, 8), (1,), 10.0
    return options


def measure(batch: int, envs: int, options: argparse.Namespace) -> Cell:
    """Run one evaluation."""
    alone_s = options.reset_s + STEPS * options.step_s + PREDICTIONS * INFER_S
    # However many simulators: an inference at a time, of `batch` episodes at most.
    episode_s = max(alone_s, envs * PREDICTIONS * INFER_S / batch)
    rounds = 2 + math.ceil(options.seconds / episode_s)
    watcher, load = Observer(envs), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="rb-busy-") as folder:
        run_evaluation(
            EvalConfig(
                backend="replay",
                platform="paced",
                episodes=rounds * envs,
                max_steps=STEPS,
                video="none",
                envs=envs,
                pin=False,
                launcher="process",
                python=sys.executable,
                platform_python=sys.executable,
                output_dir=folder,
                backend_arguments=("--infer-s", f"{INFER_S}", "--batch", f"{batch}"),
                platform_arguments=(
                    *("--step-s", f"{options.step_s}"),
                    *("--reset-s", f"{options.reset_s}"),
                    *("--spread", f"{options.spread}"),
                ),
            ),
            watcher,
        )
    return _cell(batch, envs, watcher, load)


def _cell(batch: int, envs: int, watcher: Observer, load: float) -> Cell:
    (began_s, before), (ended_s, after) = watcher.figures[0], watcher.figures[-1]
    served = after.served - before.served
    inferences = sum(after.batches.values()) - sum(before.batches.values())
    predictions = sum(row.predictions for row in watcher.rows)
    waited = sum(
        sum(seconds for stage, seconds in row.stages_s.items() if stage not in _NOT_WAITING)
        for row in watcher.rows
    )
    transport = sum(row.stages_s["transport"] for row in watcher.rows)
    return Cell(
        batch=batch,
        envs=envs,
        busy=(after.busy_s - before.busy_s) / (after.ready_s - before.ready_s),
        per_minute=60 * served / PREDICTIONS / (ended_s - began_s),
        mean_batch=served / inferences,
        queued_ms=_queued_ms(before.queue_s, after.queue_s),
        answered_ms=1e3 * waited / predictions,
        transport_ms=1e3 * transport / predictions,
        window_s=ended_s - began_s,
        load=load,
    )


_NOT_WAITING = ("simulate", "render", "other")


def _queued_ms(before: Histogram | None, after: Histogram | None) -> tuple[float, float, float]:
    if after is None:
        return (0.0, 0.0, 0.0)
    counts = list(after.counts)
    total = after.total
    if before is not None:
        counts = [later - earlier for later, earlier in zip(counts, before.counts, strict=True)]
        total -= before.total
    return (
        1e3 * total / sum(counts),
        1e3 * _bound(after.bounds, counts, 0.5),
        1e3 * _bound(after.bounds, counts, 0.99),
    )


def _bound(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """Return the upper bound of the bin that holds the `share` quantile."""
    wanted, so_far = share * sum(counts), 0
    for bound, count in zip((*bounds, math.inf), counts, strict=True):
        so_far += count
        if so_far >= wanted:
            return bound
    return math.inf


def table(cells: Sequence[Cell]) -> list[str]:
    rows = [
        f"{'at most':>8}{'simulators':>12}{'busy':>8}{'episodes/min':>14}{'in a batch':>12}"
        f"{'queued ms':>11}{'p50 <=':>8}{'p99 <=':>8}{'answered ms':>13}{'transport ms':>14}"
    ]
    for cell in cells:
        mean, p50, p99 = cell.queued_ms
        rows.append(
            f"{cell.batch:>8}{cell.envs:>12}{cell.busy:>8.1%}{cell.per_minute:>14.1f}"
            f"{cell.mean_batch:>12.2f}{mean:>11.1f}{p50:>8.1f}{p99:>8.0f}"
            f"{cell.answered_ms:>13.1f}{cell.transport_ms:>14.2f}"
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
