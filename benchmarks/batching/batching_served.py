# SPDX-License-Identifier: Apache-2.0
"""A real worker process whose model sleeps, and threads that ask as simulators do."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from batching_simulation import Workload

from rpent_box.client.connecting import ask_figures
from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.messages import Figures
from rpent_box.contracts.observation import Observation
from rpent_box.transport.channel import ClientChannel

START_S = 30.0
SEEN = Observation(
    images={"primary": np.zeros((64, 64, 3), np.uint8)},
    proprio={"eef_position": np.zeros(3, np.float32)},
    instruction="go on",
)


@dataclass(frozen=True)
class Served:
    """What one worker did for one workload."""

    rate_hz: float
    p99_s: float
    figures: Figures


def serve(load: Workload, wait_ms: int | None, *, warm_up_s: float, seconds: float) -> Served:
    """Play `load` for `seconds` after `warm_up_s`; with `wait_ms` None the worker tunes itself."""
    with _worker(load, wait_ms) as endpoint, ExitStack() as life:
        clients = [
            life.enter_context(
                ModelClient.connect(endpoint, client=f"c{n}", box=None, timeout_s=START_S)
            )
            for n in range(load.clients)
        ]
        counted_from = time.monotonic() + warm_up_s
        until = counted_from + seconds
        latencies_s: list[float] = []
        threads = [
            threading.Thread(target=_play, args=(client, load, n, counted_from, until, latencies_s))
            for n, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with ClientChannel.connect(endpoint, client="f", box=None, timeout_s=START_S) as channel:
            figures = ask_figures(channel, timeout_s=START_S)
    ordered = sorted(latencies_s)
    return Served(len(ordered) / seconds, ordered[int(0.99 * len(ordered))], figures)


def _play(
    client: ModelClient,
    load: Workload,
    number: int,
    counted_from: float,
    until: float,
    latencies_s: list[float],
) -> None:
    rng = random.Random(number)
    while True:
        time.sleep(load.pause(rng))
        asked = time.monotonic()
        client.predict(SEEN)
        answered = time.monotonic()
        if answered >= until:
            return
        if answered >= counted_from:
            latencies_s.append(answered - asked)


@contextmanager
def _worker(load: Workload, wait_ms: int | None) -> Iterator[str]:
    program = Path(__file__).with_name("artificial_worker.py")
    with tempfile.TemporaryDirectory(prefix="rb-") as folder:
        wait = "auto" if wait_ms is None else str(wait_ms)
        words = [f"ipc://{folder}/w.sock", str(load.fixed_s), str(load.each_s), wait]
        worker = subprocess.Popen(
            [sys.executable, str(program), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield _first_line(worker)
        finally:
            worker.terminate()
            worker.communicate(timeout=START_S)


def _first_line(worker: subprocess.Popen[str]) -> str:
    if worker.stdout is None:
        raise RuntimeError("the worker's output is not read")
    return worker.stdout.readline().strip()
