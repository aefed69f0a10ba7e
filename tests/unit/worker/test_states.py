# SPDX-License-Identifier: Apache-2.0
import statistics
import threading
import time

import pytest
from fake_models import META, FakeModel, observation
from msgspec.structs import replace
from running_service import PATIENCE_S, running, wait_until

from rpent_box.client.connecting import ask_health
from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.messages import GetWamMeta, Payload, Shutdown, WamPredict
from rpent_box.errors import WorkerFailed, WorkerNotReady
from rpent_box.worker.config import ServiceConfig


def test_while_it_loads_a_worker_tells_its_phase_and_refuses_the_rest():
    finish = threading.Event()

    def load(say):
        say("reading weights")
        finish.wait(60.0)
        return FakeModel()

    with running(load) as worker:
        channel = worker.channel()
        wait_until(lambda: ask_health(channel, timeout_s=1.0).reason == "reading weights")
        assert ask_health(channel, timeout_s=1.0).state == "loading"
        with pytest.raises(WorkerNotReady, match="loading .reading weights"):
            channel.request(GetWamMeta(), timeout_s=1.0)
        with pytest.raises(WorkerNotReady):
            channel.request(_empty_prediction(), timeout_s=1.0)
        finish.set()
        worker.await_state("ready", channel)


def test_a_model_that_cannot_be_loaded_stays_to_say_why_and_ends_with_1():
    def load(_):
        raise ValueError("the weights are torn")

    with running(load, config=ServiceConfig(failed_linger_s=0.5)) as worker:
        channel = worker.channel()
        worker.await_state("failed", channel)
        health = ask_health(channel, timeout_s=1.0)
        with pytest.raises(WorkerFailed, match="the weights are torn") as refused:
            channel.request(GetWamMeta(), timeout_s=1.0)
        assert worker.join() == 1

    assert health.reason == "ValueError: the weights are torn"
    assert "in load" in health.detail
    assert "in load" in refused.value.detail


def test_a_failed_worker_ends_at_once_when_asked():
    def load(_):
        raise ValueError("no")

    with running(load, config=ServiceConfig(failed_linger_s=60.0)) as worker:
        channel = worker.channel()
        worker.await_state("failed", channel)
        channel.request(Shutdown(), timeout_s=1.0)
        assert worker.join() == 1


def test_a_model_that_ends_its_thread_is_a_failed_worker_and_not_a_silent_one():
    def load(_):
        raise SystemExit(3)

    with running(load) as worker:
        channel = worker.channel()
        worker.await_state("failed", channel)
        assert ask_health(channel, timeout_s=1.0).reason == "SystemExit: 3"


def test_a_meta_of_another_kind_than_the_specification_is_refused_at_the_start():
    with running(FakeModel(replace(META, kind="vla"))) as worker:
        channel = worker.channel()
        worker.await_state("failed", channel)
        assert "its meta is a vla" in ask_health(channel, timeout_s=1.0).reason


def test_a_model_that_refuses_a_blank_scene_is_served_all_the_same():
    class Picky(FakeModel):
        def predict(self, request):
            if request.session == "warm-up":
                raise ValueError("what a strange scene")
            return super().predict(request)

    with running(Picky()) as worker:
        assert worker.client().predict(observation()).actions[0, 0] == 1


def test_health_counts_what_waits_and_who_is_remembered():
    with running(FakeModel()) as worker:
        client = worker.client()
        client.predict(observation())
        health = client.health()

    assert health.uptime_s > 0.0
    assert (health.queued, health.in_flight, health.sessions) == (0, 0, 1)


@pytest.mark.parametrize("order", ["wait", "spin"])
def test_health_answers_within_50_ms_while_the_model_infers(order):
    model = FakeModel()
    with running(model) as worker:
        client = worker.client()
        worker.health()
        busy = worker.in_thread(lambda: client.predict(observation(order)))
        assert model.started.wait(60.0)
        waits_s = []
        for _ in range(30):
            asked = time.monotonic()
            assert worker.health().in_flight == 1
            waits_s.append(time.monotonic() - asked)
        model.go_on.set()
        busy()

    assert statistics.median(waits_s) < 0.05, waits_s


def test_everything_of_the_model_runs_on_one_thread():
    model = FakeModel()
    with running(model) as worker:
        for name in ("a", "b"):
            client = worker.client(name)
            client.reset()
            client.predict(observation())
    assert len(model.threads) == 1
    assert model.threads != {threading.get_ident()}
    assert model.closed == 1


def _empty_prediction():
    return WamPredict(instruction="", embodiment="", action_space="", proprio={}, payload=Payload())


def test_a_client_waits_for_ready_and_then_asks_for_the_meta():
    def load(_):
        time.sleep(0.2)
        return FakeModel()

    with running(load, link="tcp") as worker:
        endpoint = worker.channel().endpoint
        with ModelClient.connect(endpoint, client="c", box=None, timeout_s=5.0) as client:
            assert client.meta == META


def test_when_the_inferring_thread_dies_everyone_who_waits_is_told_and_the_worker_ends():
    model = FakeModel()
    config = ServiceConfig(failed_linger_s=1.0)
    with running(model, config=config) as worker:
        first, second = worker.client("first"), worker.client("second")
        held = worker.in_thread(lambda: first.predict(observation("wait")))
        assert model.started.wait(PATIENCE_S)
        dying = worker.in_thread(lambda: second.predict(observation("die")))
        wait_until(lambda: worker.health().queued == 1)
        waiting = worker.in_thread(lambda: worker.client("third").predict(observation()))
        wait_until(lambda: worker.health().queued == 2)
        model.go_on.set()
        held()
        for answer in (dying, waiting):
            with pytest.raises(WorkerFailed, match="no error that anybody catches"):
                answer()
        assert worker.join() == 1
