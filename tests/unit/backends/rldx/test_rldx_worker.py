# SPDX-License-Identifier: Apache-2.0
"""Through our own worker and our own clients, in front of a server that speaks like upstream's."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from rldx_fake import loaded, observation
from rldx_native_server import native_server, pack
from running_service import PATIENCE_S, running, wait_until

from rpent_box.backends.rldx import BACKEND
from rpent_box.contracts.messages import CloseSession
from rpent_box.errors import BadActions, BadOption, PredictionFailed, SessionGone
from rpent_box.worker.config import ServiceConfig

CONFIG = ServiceConfig(sweep_s=0.05, drain_s=5.0)


@contextmanager
def worker(*, config=CONFIG, link="shm", server=None, **options):
    """Yield a native server and a worker that borrows it."""
    with (
        native_server(**(server or {})) as native,
        loaded(native, **options) as backend,
        running(backend, spec=BACKEND, config=config, link=link) as service,
    ):
        # The layout was tried, and the worker has warmed up; both have cleaned up behind them.
        wait_until(lambda: native.model.memory == {} and len(native.model.seen) == 2)
        native.requests.clear()
        yield native, service


def ask(client, level=7, **more):
    return client.predict(observation(client.meta, level), **more)


def count(chunk):
    return int(chunk.actions[0, 0])


@pytest.mark.parametrize("link", ["shm", "tcp"])
def test_two_clients_interleave_without_touching_each_others_memory(link):
    with worker(link=link) as (native, service):
        a, b = service.client("same name"), service.client("same name")
        seen = [(count(chunk), chunk.actions[0, 1]) for chunk in (
            ask(who, level) for who, level in ((a, 10), (b, 90), (a, 11), (a, 12), (b, 91))
        )]  # fmt: skip
        assert seen == [(1, 10.0), (1, 90.0), (2, 11.0), (3, 12.0), (2, 91.0)]
        a.reset()
        assert count(ask(a)) == 1
        assert count(ask(b)) == 3
        assert sorted(native.model.memory.values()) == [1, 3]


def test_earlier_frames_of_two_clients_stay_apart():
    options = {"history": "predictions", "execute_steps": 2}
    with worker(server={"deltas": (-2, 0)}, **options) as (_, service):
        a, b = service.client(), service.client()
        oldest = [ask(who, level).actions[0, 2] for who, level in (
            (a, 10), (b, 90), (a, 11), (b, 91), (a, 12),
        )]  # fmt: skip
        assert oldest == [10.0, 90.0, 10.0, 90.0, 11.0]


def test_a_silent_clients_memory_is_swept_at_the_server_and_no_others():
    config = ServiceConfig(session_idle_s=1.0, sweep_s=0.05, drain_s=5.0)
    with worker(config=config) as (native, service):
        idle, busy = service.client("idle"), service.client("busy")
        ask(idle)
        (idles,) = native.model.memory

        def swept():
            ask(busy)
            return idles not in native.model.memory

        wait_until(swept)
        resets = [request["data"]["options"] for request in native.asked("reset")]
        assert resets == [{"session_ids": [idles]}]
        assert len(native.model.memory) == 1
        before = count(ask(busy))
        with pytest.raises(SessionGone, match="dropped after a long silence"):
            ask(idle)
        idle.reset()
        assert count(ask(idle)) == 1
        assert count(ask(busy)) == before + 1


def test_a_client_that_closes_leaves_nothing_behind_at_the_server():
    with worker() as (native, service):
        staying, leaving = service.client(), service.client()
        ask(staying)
        ask(leaving)
        leaving.close()
        wait_until(lambda: len(native.model.memory) == 1)
        assert count(ask(staying)) == 2


def test_no_client_can_name_anothers_session():
    with worker() as (native, service):
        victim, thief = service.client(), service.client()
        ask(victim)
        (session,) = native.model.memory
        for options in ({"session_ids": session}, {"session_id": session}, {"reset_memory": True}):
            with pytest.raises(BadOption, match="knows no option"):
                ask(thief, options=options)
        assert native.model.memory == {session: 1}


def test_nothing_ever_clears_everyone():
    with worker() as (native, service):
        clients = [service.client() for _ in range(3)]
        for client in clients:
            client.reset()
            ask(client)
            client._channel.request(CloseSession(), timeout_s=PATIENCE_S)
            client.reset()
    resets = [request["data"]["options"] for request in native.asked("reset")]
    assert len(resets) >= 9
    assert all(len(options["session_ids"]) == 1 for options in resets)
    assert not native.asked("kill")


def test_one_clients_failure_is_its_own():
    with worker() as (native, service):
        a, b = service.client(), service.client()
        ask(a)
        ask(b)
        native.misbehave = lambda endpoint, answer: pack({"error": "out of memory"})
        with pytest.raises(PredictionFailed, match="out of memory"):
            ask(a)
        native.misbehave = None
        assert count(ask(b)) == 2
        with pytest.raises(SessionGone):
            ask(a)
        a.reset()
        assert count(ask(a)) == 1


def test_bad_values_never_reach_a_client():
    def not_a_number(endpoint, answer):
        if endpoint == "get_action":
            answer[0]["gripper_close"][:] = float("nan")
        return pack(answer)

    with worker() as (native, service):
        client = service.client()
        native.misbehave = not_a_number
        with pytest.raises(BadActions, match="gripper_close"):
            ask(client)
        native.misbehave = None
        assert count(ask(client)) == 1


def test_ending_the_worker_leaves_a_borrowed_server_running_and_clean():
    with native_server() as native:
        with loaded(native) as backend, running(backend, spec=BACKEND, config=CONFIG) as service:
            ask(service.client())
            assert native.model.memory
        assert native.model.memory == {}
        with loaded(native) as again:
            assert again.meta.backend == "rldx"
