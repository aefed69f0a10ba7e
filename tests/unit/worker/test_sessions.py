# SPDX-License-Identifier: Apache-2.0
import multiprocessing
import os
import signal

import pytest
from fake_models import META, STATEFUL, FakeModel, observation
from running_service import LINKS, PATIENCE_S, running, wait_until

from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.messages import CloseSession, RegisterSession, ResetSession
from rpent_box.errors import PredictionFailed, SessionGone
from rpent_box.worker.config import ServiceConfig

IMPATIENT = ServiceConfig(session_idle_s=0.3, sweep_s=0.05, drain_s=2.0)


@pytest.mark.parametrize("link", LINKS)
def test_two_interleaving_clients_never_touch_each_others_memory(link):
    with running(FakeModel(STATEFUL), link=link) as worker:
        a, b = worker.client("same name"), worker.client("same name")
        counts = []
        for who in (a, b, a, a, b, a):
            counts.append(int(who.predict(observation()).actions[0, 0]))
        a.reset()
        after = [int(who.predict(observation()).actions[0, 0]) for who in (a, b)]

    assert counts == [1, 1, 2, 3, 2, 4]
    assert after == [1, 3]


def test_sessions_have_names_that_cannot_be_guessed():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        for name in ("a", "b"):
            worker.client(name).predict(observation())
    first, second = (seen.session for seen in model.seen)
    assert first != second
    assert len(first) == 32


def test_a_reset_keeps_its_place_between_predictions():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        a, b = worker.client("a"), worker.client("b")
        a.predict(observation())
        model.started.clear()
        blocked = worker.in_thread(lambda: b.predict(observation("wait")))
        assert model.started.wait(60.0)
        reset = worker.in_thread(a.reset)
        wait_until(lambda: worker.health().queued == 1)
        model.go_on.set()
        blocked()
        reset()
        assert a.predict(observation()).actions[0, 0] == 1


def test_every_kind_of_reset_reaches_the_model():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        client = worker.client()
        client.predict(observation())
        client._channel.request(ResetSession(), timeout_s=PATIENCE_S)
        client.predict(observation())
        client.reset()
        client.close()
    session = model.seen[0].session
    whats = [what for what, whose in model.calls if whose == session]
    assert whats == ["predict", "reset", "predict", "reset", "drop"]


def test_a_model_without_memory_is_reset_too_and_needs_no_session():
    model = FakeModel(META)
    with running(model) as worker:
        client = worker.client()
        client.reset()
        client.predict(observation())
    assert [what for what, _ in model.calls[:2]] == ["reset", "predict"]


def test_predicting_without_a_session_is_refused_where_memory_matters():
    with running(FakeModel(STATEFUL)) as worker:
        client = worker.client()
        client._channel.request(CloseSession(), timeout_s=PATIENCE_S)
        with pytest.raises(SessionGone, match="has no session in fake"):
            client.predict(observation())
        client.reset()
        assert client.predict(observation()).actions[0, 0] == 1


def test_registering_twice_is_one_session():
    with running(FakeModel(STATEFUL)) as worker:
        client = worker.client()
        client._channel.request(RegisterSession(), timeout_s=PATIENCE_S)
        assert client.health().sessions == 1


def test_closing_a_client_drops_its_memory_and_no_others():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        a, b = worker.client("a"), worker.client("b")
        a.predict(observation())
        b.predict(observation())
        a.close()
        wait_until(lambda: worker.health().sessions == 1)
        assert b.predict(observation()).actions[0, 0] == 2
        dropped = [whose for what, whose in model.calls if what == "drop"]
    assert dropped == [model.seen[0].session]


@pytest.mark.parametrize("link", LINKS)
def test_an_idle_session_is_swept_and_its_client_told_at_its_next_word(link):
    model = FakeModel(STATEFUL)
    with running(model, link=link, config=IMPATIENT) as worker:
        client = worker.client()
        client.predict(observation())
        wait_until(lambda: worker.health().sessions == 0)
        wait_until(lambda: ("drop", model.seen[0].session) in model.calls)
        with pytest.raises(SessionGone, match="long silence"):
            client.predict(observation())
        client.reset()
        assert client.predict(observation()).actions[0, 0] == 1


def test_a_session_is_swept_only_when_it_was_silent_for_long_enough():
    with running(FakeModel(STATEFUL)) as worker:
        client = worker.client()
        client.predict(observation())
        # As the receiving thread does every second, which is idle now.
        (connection,) = [c for c in worker.service._reception.connections if c.session]
        for silent_s, sessions in ((9.9, 1), (10.1, 0)):
            worker.service._reception.sweep(connection.seen + silent_s, session_idle_s=10.0)
            assert worker.health().sessions == sessions


def test_every_word_of_a_client_counts_against_its_silence():
    with running(FakeModel(STATEFUL)) as worker:
        client = worker.client()
        (connection,) = [c for c in worker.service._reception.connections if c.session]
        before = connection.seen
        client.predict(observation())
        assert connection.seen > before


def test_a_second_hello_begins_anew():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        client = worker.client()
        client.predict(observation())
        client._channel._say_hello(PATIENCE_S)
        with pytest.raises(SessionGone):
            client.predict(observation())
        client.reset()
        assert client.predict(observation()).actions[0, 0] == 1
    assert model.seen[0].session != model.seen[1].session


def test_an_idle_client_of_a_model_without_memory_notices_nothing():
    with running(FakeModel(META), config=IMPATIENT) as worker:
        client = worker.client()
        client.predict(observation())
        wait_until(lambda: worker.health().uptime_s > 0.8)
        assert client.predict(observation()).actions[0, 0] == 2


def test_a_reset_that_raises_comes_back_as_an_error():
    class Stubborn(FakeModel):
        def reset(self, session):
            if session != "warm-up":
                raise RuntimeError("never")

    with running(Stubborn(STATEFUL)) as worker:
        client = worker.client()
        with pytest.raises(PredictionFailed, match="never"):
            client.reset()


@pytest.mark.parametrize("predicts", [True, False])
def test_a_killed_client_loses_its_session_long_before_it_would_be_idle(predicts):
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        survivor = worker.client("survivor")
        survivor.predict(observation())
        channel = survivor._channel
        context = multiprocessing.get_context("spawn")
        is_there = context.Event()
        victim = context.Process(
            target=_be_there, args=(channel.endpoint, channel._box, is_there, predicts)
        )
        victim.start()
        assert is_there.wait(60.0)
        assert worker.health().sessions == 2
        os.kill(victim.pid, signal.SIGKILL)
        victim.join(5.0)
        wait_until(lambda: worker.health().sessions == 1)
        assert survivor.predict(observation()).actions[0, 0] == 2


def _be_there(endpoint, box, is_there, predicts):
    with ModelClient.connect(
        endpoint, client="victim", box=box, timeout_s=PATIENCE_S, image_size=(32, 48)
    ) as client:
        if predicts:
            client.predict(observation())
        is_there.set()
        signal.pause()


def test_who_waits_for_an_answer_is_not_silent_however_long_the_model_takes():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        client = worker.client()
        (connection,) = [c for c in worker.service._reception.connections if c.session]
        answer = worker.in_thread(lambda: client.predict(observation("wait")))
        assert model.started.wait(PATIENCE_S)
        worker.service._reception.sweep(connection.seen + 1000.0, session_idle_s=10.0)
        model.go_on.set()
        assert answer().actions[0, 0] == 1
        assert client.predict(observation()).actions[0, 0] == 2


def test_registering_does_not_wait_for_a_model_that_is_busy_with_others():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        busy = worker.client("busy")
        answer = worker.in_thread(lambda: busy.predict(observation("wait")))
        assert model.started.wait(PATIENCE_S)
        assert worker.client("new").health().sessions == 2
        assert worker.health().in_flight == 1
        model.go_on.set()
        answer()
