# SPDX-License-Identifier: Apache-2.0
"""What a worker has counted, and that it says so at all times."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest
from fake_models import META, BatchingModel, FakeModel, observation
from msgspec.structs import replace
from running_service import PATIENCE_S, ask_raw, gathered, running, wait_until

from rpent_box.contracts.messages import Figures, GetFigures, Reply, Request
from rpent_box.errors import BadOption, DeadlineExceeded, PredictionFailed
from rpent_box.transport.dealer import Dealer
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.tally import BOUNDS_S, Bins, Tally


def test_everything_that_was_answered_is_counted():
    model = BatchingModel()
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(3)]
        for call in gathered(worker, model, clients, [observation()] * 3):
            call()
        with pytest.raises(PredictionFailed):
            clients[0].predict(observation("raise"))
        refused = ask_raw(clients[1]._channel, observation(), timeout_s=-1.0)
        figures = worker.figures()

    assert refused.code == BadOption.code
    assert (figures.served, figures.refused) == (4, 2)
    assert figures.batches == {1: 1, 3: 1}
    assert figures.infer_s is not None
    assert figures.queue_s is not None
    assert sum(figures.infer_s.counts) == 2
    assert sum(figures.queue_s.counts) == 4
    assert figures.max_batch == 4


def test_those_whose_time_ran_out_in_the_queue_are_counted_as_refused():
    model = BatchingModel()
    with running(model) as worker:
        client, hurried = worker.client("a"), worker.client("b")
        model.go_on.clear()
        blocked = worker.in_thread(lambda: client.predict(observation("wait")))
        assert model.started.wait(PATIENCE_S)
        answer = ask_raw(hurried._channel, observation(), timeout_s=0.05)
        figures = worker.figures()
        model.go_on.set()
        blocked()
    assert answer.code == DeadlineExceeded.code
    assert (figures.served, figures.refused) == (0, 1)


def test_a_model_at_work_is_busy_already():
    model = FakeModel()
    with running(model) as worker:
        client = worker.client()
        assert worker.figures().busy_s < 0.1
        model.go_on.clear()
        waiting = worker.in_thread(lambda: client.predict(observation("wait")))
        assert model.started.wait(PATIENCE_S)
        before = worker.figures()
        time.sleep(0.1)
        during = worker.figures()
        model.go_on.set()
        waiting()
    assert during.busy_s - before.busy_s >= 0.1
    assert during.ready_s == pytest.approx(during.busy_s + during.gathering_s + during.idle_s)


def test_holding_a_batch_open_is_neither_busy_nor_idle():
    model = BatchingModel()
    config = ServiceConfig(max_wait_ms=150.0, drain_s=2.0, sweep_s=0.05)
    with running(model, config=config) as worker:
        first, second = worker.client("a"), worker.client("b")
        first.predict(observation())
        second.predict(observation())
        figures = worker.figures()
    assert 0.14 < figures.gathering_s < 10.0
    assert (figures.max_wait_ms, figures.tuned) == (150.0, False)


def test_the_wait_is_tuned_unless_a_number_was_given_or_there_is_no_company():
    with running(BatchingModel()) as worker:
        worker.client()
        assert worker.figures().tuned
    with running(FakeModel(replace(META, max_batch=4))) as worker:
        worker.client()
        figures = worker.figures()
    assert (figures.tuned, figures.max_batch, figures.max_wait_ms) == (False, 1, 0.0)


def test_figures_are_told_before_the_model_is_ready_and_before_a_hello():
    finish = threading.Event()

    def load(_say):
        finish.wait(PATIENCE_S)
        return FakeModel()

    with running(load, link="tcp") as worker:
        decoder = msgspec.msgpack.Decoder(Reply)
        endpoint = worker._channel.endpoint
        dealer = Dealer.connect(endpoint, answers=decoder, timeout_s=PATIENCE_S)
        dealer.send(Request(id=7, timeout_s=PATIENCE_S, body=GetFigures()))
        reply, _ = dealer.receive(time.monotonic() + PATIENCE_S)
        dealer.close()
        finish.set()
    assert reply == Reply(id=7, body=Figures())


def test_the_turns_add_up_whatever_the_clock_shows():
    now = [5.0]
    tally = Tally(clock=lambda: now[0])
    tally.enter("busy")
    now[0] = 9.0
    tally.start()
    for turn, seconds in (("busy", 2.0), ("idle", 1.0), ("gathering", 0.5), ("busy", 4.0)):
        tally.enter(turn)
        now[0] += seconds
    figures = tally.figures(max_batch=1, max_wait_s=0.0, tuned=False)
    assert (figures.busy_s, figures.gathering_s, figures.idle_s) == (6.0, 0.5, 1.0)
    assert figures.ready_s == 7.5


def test_a_bound_belongs_to_what_is_below_it():
    bins = Bins((1.0, 2.0))
    assert bins.histogram() is None
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        bins.add(value)
    histogram = bins.histogram()
    assert histogram is not None
    assert (histogram.counts, histogram.total) == ((2, 2, 1), 7.5)
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    assert (BOUNDS_S[0], BOUNDS_S[-1]) == (0.0005, 100.0)


def test_figures_only_grow_and_agree_with_each_other_while_clients_ask():
    model = BatchingModel()
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(3)]

        def play(client):
            for _ in range(30):
                client.predict(observation())

        playing = [worker.in_thread(lambda client=client: play(client)) for client in clients]
        seen = []
        wait_until(lambda: seen.append(worker.figures()) or seen[-1].served == 90)
        for call in playing:
            call()
    for before, after in zip(seen, seen[1:], strict=False):
        assert after.served >= before.served
        assert after.busy_s >= before.busy_s
        inferred = sum(size * times for size, times in after.batches.items())
        assert after.served <= inferred <= after.served + 4
        assert after.queue_s is None or sum(after.queue_s.counts) == inferred
