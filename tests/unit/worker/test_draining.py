# SPDX-License-Identifier: Apache-2.0
import threading
import time

import pytest
from fake_models import BatchingModel, FakeModel, observation
from running_service import PATIENCE_S, running, wait_until

from rpent_box.client.connecting import ask_health
from rpent_box.contracts.messages import Shutdown
from rpent_box.errors import WorkerDraining
from rpent_box.transport.lease import Lease
from rpent_box.worker.config import ServiceConfig


def test_draining_finishes_what_is_queued_refuses_what_is_new_and_ends_with_0():
    model = FakeModel()
    with running(model) as worker:
        a, b, late = (worker.client(name) for name in ("a", "b", "late"))
        first = worker.in_thread(lambda: a.predict(observation("wait")))
        assert model.started.wait(60.0)
        second = worker.in_thread(lambda: b.predict(observation("queued")))
        wait_until(lambda: worker.health().queued == 1)
        worker.service.drain("a test asked")
        wait_until(lambda: worker.health().state == "draining")
        assert worker.health().reason == "a test asked"
        with pytest.raises(WorkerDraining, match="takes nothing new"):
            late.predict(observation())
        model.go_on.set()
        assert first().actions.shape == (3, 7)
        assert second().actions.shape == (3, 7)
        assert worker.join() == 0

    assert [seen.observation.instruction for seen in model.seen] == ["wait", "queued"]
    assert model.closed == 1


def test_a_batch_that_is_held_open_goes_when_nothing_new_is_taken():
    model = BatchingModel()
    config = ServiceConfig(max_wait_ms=3600e3, drain_s=PATIENCE_S)
    with running(model, config=config) as worker:
        a, b = worker.client("a"), worker.client("b")
        a.predict(observation())
        held = worker.in_thread(lambda: b.predict(observation()))
        wait_until(lambda: worker.health().queued == 1)
        began = time.monotonic()
        worker.service.drain("a test asked")
        assert held().actions.shape == (3, 7)
        assert worker.join() == 0
    assert time.monotonic() - began < PATIENCE_S / 2


def test_a_shutdown_message_is_answered_and_drains():
    with running(FakeModel()) as worker:
        client = worker.client()
        client._channel.request(Shutdown(), timeout_s=PATIENCE_S)
        assert worker.join() == 0


def test_draining_is_bounded_and_what_is_left_gets_an_answer():
    model = FakeModel()
    with running(model, config=ServiceConfig(drain_s=0.2)) as worker:
        a, b = worker.client("a"), worker.client("b")
        worker.in_thread(lambda: a.predict(observation("wait")))
        assert model.started.wait(60.0)
        queued = worker.in_thread(lambda: b.predict(observation()))
        wait_until(lambda: worker.health().queued == 1)
        worker.service.drain("now")
        with pytest.raises(WorkerDraining, match="before this could be predicted"):
            queued()
        assert worker.join() == 0
        model.go_on.set()


def test_a_worker_that_still_loads_ends_at_once_when_asked():
    finish = threading.Event()

    def load(_):
        finish.wait(2 * PATIENCE_S)
        return FakeModel()

    with running(load) as worker:
        channel = worker.channel()
        wait_until(lambda: ask_health(channel, timeout_s=PATIENCE_S).state == "loading")
        worker.service.drain("changed my mind")
        assert worker.join() == 0
        assert not finish.is_set()
        finish.set()


def test_a_late_ready_does_not_end_a_drain():
    finish = threading.Event()

    def load(_):
        finish.wait(60.0)
        return FakeModel()

    with running(load) as worker:
        worker.service.drain("changed my mind")
        assert worker.join() == 0
        finish.set()
        time.sleep(0.05)
        assert worker.service._status.state == "draining"


def test_an_owned_worker_ends_at_once_when_its_owner_lets_go(tmp_path):
    lease = Lease.hold(tmp_path / "lease")
    model = FakeModel()
    with running(model, config=ServiceConfig(lease=tmp_path / "lease")) as worker:
        client = worker.client()
        worker.in_thread(lambda: client.predict(observation("wait")))
        assert model.started.wait(60.0)
        assert worker.join(0.3) is None
        lease.close()
        assert worker.join() == 0
        model.go_on.set()
