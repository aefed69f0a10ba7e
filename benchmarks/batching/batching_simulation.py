# SPDX-License-Identifier: Apache-2.0
"""A worker and its simulators on a clock that is only counted: no thread, no waiting, no chance.

Each simulator asks, waits for its answer, simulates its chunk and asks again. The worker holds
batches open as its rule says (`rpent_box.worker.gathering`). Equal seeds give equal figures.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from rpent_box.worker.gathering import Gathering

WARM_UP = 20
"""Predictions of each simulator that are not counted: the rule learns, the first rush passes."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Simulators and a model. All times are in seconds."""

    name: str
    clients: int
    pause: Callable[[random.Random], float]
    """From an answer to the next question: a chunk of simulation."""
    fixed_s: float
    each_s: float
    """An inference of b takes `fixed_s + each_s · b`, give or take a few per cent."""
    max_batch: int = 16
    noise: float = 0.03

    def inference_s(self, rng: random.Random, size: int) -> float:
        return (self.fixed_s + self.each_s * size) * max(0.5, rng.gauss(1.0, self.noise))

    def ceiling_hz(self) -> float:
        """Predictions per second that nothing exceeds for long: no queue, or only full batches."""
        rng = random.Random(1)
        pause_s = sum(self.pause(rng) for _ in range(5000)) / 5000
        free = self.clients / (pause_s + self.fixed_s + self.each_s)
        most = min(self.clients, self.max_batch)
        return min(free, most / (self.fixed_s + self.each_s * most))


@dataclass(frozen=True, slots=True)
class Question:
    """What waits for the model."""

    connection: bytes
    received: float
    deadline: float = 1e9


@dataclass(slots=True)
class Outcome:
    """What was counted after the warm-up."""

    span_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    @property
    def rate_hz(self) -> float:
        return len(self.latencies_s) / self.span_s

    @property
    def mean_batch(self) -> float:
        return sum(self.batches) / len(self.batches)

    def latency_s(self, quantile: float) -> float:
        return sorted(self.latencies_s)[int(quantile * len(self.latencies_s))]


class Simulation:
    """One run of one workload under one rule."""

    def __init__(self, load: Workload, rule: Gathering, *, seed: int = 0) -> None:
        self._load = load
        self._rule = rule
        self._model = random.Random(seed)
        # Each draws from its own generator: under every rule the same chunks take as long.
        self._clients = [random.Random(f"{seed} {n}") for n in range(load.clients)]
        self._due = [(load.pause(rng), n) for n, rng in enumerate(self._clients)]
        heapq.heapify(self._due)
        self._waiting: list[Question] = []
        self._now = 0.0

    def run(self, predictions: int) -> Outcome:
        """Return what became of `predictions` of them, after the warm-up."""
        outcome, begun, left = Outcome(), 0.0, WARM_UP * self._load.clients
        while len(outcome.latencies_s) < predictions:
            latencies_s = self._serve(self._gather())
            if left > 0:
                left -= len(latencies_s)
                begun = self._now
                continue
            outcome.latencies_s += latencies_s
            outcome.batches.append(len(latencies_s))
        outcome.span_s = self._now - begun
        return outcome

    def _gather(self) -> list[Question]:
        if not self._waiting:
            self._pass_time(max(self._now, self._due[0][0]))
        since = self._now
        while True:
            batch = self._waiting[: self._load.max_batch]
            room = self._load.max_batch - len(batch)
            until = self._rule.hold_until(self._now, batch, room=room, since=since) if room else 0.0
            if until <= self._now:
                del self._waiting[: len(batch)]
                return batch
            self._pass_time(min(until, self._due[0][0]) if self._due else until)

    def _serve(self, batch: list[Question]) -> list[float]:
        took_s = self._load.inference_s(self._model, len(batch))
        self._pass_time(self._now + took_s)
        self._rule.inferred(len(batch), took_s)
        for question in batch:
            number = int.from_bytes(question.connection, "big")
            self._rule.answered(question.connection, self._now)
            pause_s = self._load.pause(self._clients[number])
            heapq.heappush(self._due, (self._now + pause_s, number))
        return [self._now - question.received for question in batch]

    def _pass_time(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            at, number = heapq.heappop(self._due)
            question = Question(number.to_bytes(2, "big"), at)
            self._waiting.append(question)
            self._rule.asked(question.connection, at)
        self._now = until
