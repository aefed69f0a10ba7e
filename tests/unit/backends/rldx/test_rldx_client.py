# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import threading
import time

import msgspec
import numpy as np
import pytest
from rldx_native_server import native_server, pack
from rldx_parts import a_modality, noise
from running_service import wait_until

from rpent_box.backends.rldx.adapter.encode import encode
from rpent_box.backends.rldx.client import RldxClient
from rpent_box.backends.rldx.line import LARGEST_ANSWER
from rpent_box.backends.rldx.modality import read_modality
from rpent_box.errors import (
    DeadlineExceeded,
    PeerGone,
    PredictionFailed,
    ProgramDied,
    ProtocolMismatch,
)

OPTIONS = {"reset_memory": [False], "session_ids": ["a"]}
NATIVE = encode(noise(a_modality()), a_modality())


@pytest.fixture
def server():
    with native_server() as server:
        yield server


@pytest.fixture
def client(server):
    with RldxClient(server.endpoint, timeout_s=30.0) as client:
        yield client


def predict(client, **more):
    return client.get_action(NATIVE, OPTIONS, connection=client.connect(), **more)


def count(answer):
    return int(answer["end_effector_position"][0, 0, 0])


def test_it_asks_what_the_model_sees_and_predicts(server, client):
    client.ping(timeout_s=30.0)
    assert read_modality(client.modality_config()).horizon == 16
    assert count(predict(client)) == 1
    assert [request["endpoint"] for request in server.requests] == [
        "ping",
        "get_modality_config",
        "get_action",
    ]
    sent = server.requests[-1]["data"]["observation"]["video"]["robot0_eye_in_hand"]
    assert np.array_equal(sent, NATIVE["video"]["robot0_eye_in_hand"])


def test_a_reset_clears_one_session_and_leaves_the_others(server, client):
    predict(client)
    client.get_action(
        NATIVE, {"session_ids": ["b"], "reset_memory": [True]}, connection=client.connect()
    )
    client.reset("a")
    assert server.model.memory == {"b": 1}
    client.reset("never seen")
    assert server.model.memory == {"b": 1}


def test_a_server_that_clears_more_than_it_was_asked_is_not_trusted(server, client):
    server.misbehave = lambda *_: pack({"cleared_sessions": ["a", "b"]})
    with pytest.raises(ProtocolMismatch, match="wanted this session's name"):
        client.reset("a")


def test_the_servers_own_words_reach_the_caller(server, client):
    server.misbehave = lambda *_: pack({"error": "CUDA out of memory"})
    with pytest.raises(PredictionFailed, match="CUDA out of memory"):
        predict(client)
    server.misbehave = None
    assert count(predict(client)) == 2


def test_of_endless_words_the_beginning_reaches_the_caller(server, client):
    server.misbehave = lambda *_: pack({"error": "shape mismatch " + "x" * 1_000_000})
    with pytest.raises(PredictionFailed, match="refused a prediction: shape mismatch xxx") as e:
        predict(client)
    assert len(e.value.message) < 3000


def test_an_answer_without_measure_is_never_taken_in(server, client):
    server.misbehave = lambda *_: bytes(LARGEST_ANSWER + 1)
    with pytest.raises(PeerGone):
        predict(client)
    server.misbehave = None
    assert count(predict(client)) == 2


def test_a_token_is_sent_and_a_wrong_one_is_named():
    with native_server(token="secret") as server:
        with RldxClient(server.endpoint, token="secret", timeout_s=30.0) as client:
            client.ping(timeout_s=30.0)
        with RldxClient(server.endpoint, timeout_s=30.0) as client:
            with pytest.raises(PredictionFailed, match="Unauthorized") as caught:
                client.ping(timeout_s=30.0)
            assert "--token-file" in caught.value.hint


def test_a_slow_server_is_given_up_and_its_late_answer_is_never_taken_for_another(server, client):
    go_on = threading.Event()
    answers = iter([7, 8])

    def late(endpoint, answer):
        go_on.wait(30.0)
        return pack([{"number": next(answers)}, {}])

    server.misbehave = late
    with pytest.raises(DeadlineExceeded, match="has not answered a prediction within 0.2 s"):
        predict(client, timeout_s=0.2)
    before = client.connect()
    go_on.set()
    assert predict(client) == {"number": 8}
    assert client.connect() == before, "the connection is still the same"


def test_questions_reach_the_server_in_the_order_in_which_they_were_asked(server, client):
    go_on = threading.Event()

    def slow(endpoint, answer):
        go_on.wait(30.0)
        return pack(answer)

    server.misbehave = slow
    with pytest.raises(DeadlineExceeded):
        client.ping(timeout_s=0.1)
    with pytest.raises(DeadlineExceeded):
        predict(client, timeout_s=0.1)
    go_on.set()
    client.reset("a")
    assert [request["endpoint"] for request in server.requests] == ["ping", "get_action", "reset"]
    assert server.model.memory == {}, "the prediction that was given up came before the reset"


def test_a_server_that_hangs_up_is_noticed_at_once(server, client):
    server.misbehave = lambda *_: None
    began = time.monotonic()
    with pytest.raises(PeerGone, match="has ended"):
        predict(client)
    assert time.monotonic() - began < 10.0
    server.misbehave = None
    wait_until(lambda: is_there(client))
    assert count(predict(client)) == 2


def is_there(client):
    try:
        return client.connect() > 0
    except PeerGone:
        return False


def test_a_server_that_came_back_is_another_one():
    with native_server() as first, RldxClient(first.endpoint, timeout_s=30.0) as client:
        assert client.connect() == 1
        port = first.port
        first.close()
        with native_server(port=port) as second:
            with pytest.raises(PeerGone, match="hung up meanwhile"):
                client.get_action(NATIVE, OPTIONS, connection=1)
            assert client.connect() == 2
            assert count(predict(client)) == 1
            assert len(second.requests) == 1


def test_nobody_there_is_said_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        with RldxClient(endpoint, timeout_s=30.0) as client, pytest.raises(PeerGone):
            client.connect()


def test_something_else_at_that_port_is_refused():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def greet():
            other, _ = listener.accept()
            with other:
                other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        endpoint = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        refused = pytest.raises(ProtocolMismatch, match="does not speak ZeroMQ")
        with RldxClient(endpoint, timeout_s=30.0) as client, refused:
            client.connect()
        thread.join(30.0)


@pytest.mark.parametrize(
    "answer", [b"ERROR", b"", msgspec.msgpack.encode("text"), pack([1]), pack({})]
)
def test_an_answer_that_makes_no_sense_is_refused(server, client, answer):
    server.misbehave = lambda *_: answer
    with pytest.raises(ProtocolMismatch):
        predict(client)
    server.misbehave = None
    assert count(predict(client)) == 2


def test_a_servers_end_is_told_by_whoever_watches_over_it(server):
    has_ended = threading.Event()

    def watch():
        if has_ended.is_set():
            raise ProgramDied("the RLDX server ended with exit code 3")

    def end(*_):
        has_ended.set()
        return None

    with RldxClient(server.endpoint, timeout_s=30.0, watch=watch) as client:
        predict(client)
        server.misbehave = end
        with pytest.raises(ProgramDied, match="exit code 3"):
            predict(client)


def test_closing_twice_is_no_error(client):
    client.connect()
    client.close()
    client.close()
