# SPDX-License-Identifier: Apache-2.0
"""A client that floods the worker delays the others by the batch under way, and no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from fake_models import BatchingModel, observation
from running_service import PATIENCE_S, ask_without_waiting, running

from rpent_box.client.connecting import ask_figures
from rpent_box.contracts.messages import Figures
from rpent_box.worker.backend import PredictionInput
from rpent_box.worker.gathering import FixedGathering, Gathering, TunedGathering
from rpent_box.worker.queue import LANE, WorkQueue
from rpent_box.worker.work import Errand, Prediction


def asked(connection: bytes) -> Prediction:
    now = time.monotonic()
    return Prediction(
        connection=connection,
        request_id=0,
        received=now,
        deadline=now + 60.0,
        input=PredictionInput(observation=observation(), session="s"),
        recheck=lambda: None,
    )


@pytest.mark.parametrize("max_batch", [1, 2, 4])
@pytest.mark.parametrize("rule", [TunedGathering, lambda: FixedGathering(0.005)])
def test_whoever_asks_is_in_the_next_batch_however_many_questions_wait(
    max_batch: int, rule: Callable[[], Gathering]
) -> None:
    queue = WorkQueue(rule())
    for number in range(20):
        while queue.counts()[0] < LANE:
            queue.put(asked(b"flood"))
        queue.take(max_batch)
        queue.put(asked(b"other"))
        queue.finish()
        taken = [work.connection for work in queue.take(max_batch)]
        queue.finish()
        assert b"other" in taken, number


def test_a_flood_of_resets_ends_no_later_than_the_wait_for_company() -> None:
    queue = WorkQueue(FixedGathering(0.05))
    queue.put(asked(b"absent"))
    queue.take(1)
    queue.finish()
    queue.put(asked(b"other"))
    began = time.monotonic()
    while True:
        queue.put(Errand(connection=b"flood", request_id=None, run=lambda _: None))
        (work,) = queue.take(4)
        queue.finish()
        if isinstance(work, Prediction):
            break
    assert time.monotonic() - began < 1.0


def test_others_wait_for_the_batch_under_way_and_for_their_own() -> None:
    with running(BatchingModel()) as worker:
        other = worker.client("other")
        figures = worker.channel("figures")
        stop = threading.Event()

        def flood() -> None:
            channel = worker.channel("flood")
            while not stop.is_set():
                ask_without_waiting(channel, observation("sleep 0.02"), LANE)

        flooding = worker.in_thread(flood)
        done = []
        for _ in range(10):
            before = _inferences(ask_figures(figures, timeout_s=PATIENCE_S))
            other.predict(observation("sleep 0.02"))
            done.append(_inferences(ask_figures(figures, timeout_s=PATIENCE_S)) - before)
        stop.set()
        flooding()
    # The one under way, its own, and perhaps one that ended while the question travelled.
    assert max(done) <= 3, done


def _inferences(figures: Figures) -> int:
    return sum(figures.batches.values())
