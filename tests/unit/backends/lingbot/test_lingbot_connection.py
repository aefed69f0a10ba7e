# SPDX-License-Identifier: Apache-2.0
"""Every way in which a server can fail to answer, each with a deadline and a reason."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import msgpack
import numpy as np
import pytest
from lingbot_server import METADATA, answer, lingbot_server
from websockets.server import ServerProtocol

from rpent_box.backends.lingbot.connection import (
    Connection,
    ServerAddress,
    is_healthy,
    parse_address,
)
from rpent_box.errors import BadOption, DeadlineExceeded, PredictionFailed


def connected(fake, **more):
    timeouts = {"connect_timeout_s": 5.0, "reply_timeout_s": 5.0, **more}
    return Connection(parse_address(fake.url), **timeouts)


def question():
    return {"observation.state": np.arange(16, dtype=np.float32), "task": "go"}


@pytest.fixture
def silent():
    """A listener that accepts nothing by itself."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


def address_of(listener):
    return ServerAddress("127.0.0.1", listener.getsockname()[1])


def test_it_is_greeted_and_answered():
    with lingbot_server() as fake:
        connection = connected(fake)
        assert connection.greeting == METADATA
        reply = connection.ask(question())
        np.testing.assert_array_equal(reply["action"], answer(question())["action"])
        assert reply["server_timing"]["infer_ms"] >= 0
        assert connection.is_open
        connection.close()
        connection.close()
        assert not connection.is_open


def test_it_stays_open_while_nobody_asks():
    with lingbot_server() as fake:
        connection = connected(fake, connect_timeout_s=0.2, reply_timeout_s=0.2)
        time.sleep(0.5)
        assert connection.is_open
        connection.ask(question())
        assert fake.connections == 1


def test_a_traceback_is_told_and_kept_as_detail():
    def infer(_):
        raise RuntimeError("CUDA out of memory")

    with lingbot_server(infer) as fake:
        connection = connected(fake)
        with pytest.raises(PredictionFailed, match="raised RuntimeError: CUDA out of memory") as e:
            connection.ask(question())
        assert "Traceback (most recent call last)" in e.value.detail
        assert not connection.is_open


def test_of_an_endless_traceback_the_end_is_kept():
    with lingbot_server(lambda _: "x" * 5_000_000 + "\nValueError: " + "y" * 50_000) as fake:
        with pytest.raises(PredictionFailed, match="raised ValueError: yyy") as caught:
            connected(fake).ask(question())
        assert len(caught.value.message) < 1000
        assert caught.value.detail == "y" * 20_000


def test_a_cut_line_is_told():
    with lingbot_server(lambda _: None) as fake:
        connection = connected(fake)
        with pytest.raises(PredictionFailed, match="closed the connection"):
            connection.ask(question())
        with pytest.raises(PredictionFailed, match="closed the connection"):
            connection.ask(question())


def test_a_line_that_is_lost_while_nobody_asks_is_noticed():
    with lingbot_server() as fake:
        connection = connected(fake)
    deadline = time.monotonic() + 5.0
    while connection.is_open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not connection.is_open


def test_a_slow_answer_is_a_missed_deadline_and_ends_the_connection():
    go_on = threading.Event()

    def infer(asked):
        go_on.wait(10.0)
        return answer(asked)

    with lingbot_server(infer) as fake:
        connection = connected(fake, reply_timeout_s=0.2)
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="did not answer within 0.2 s"):
            connection.ask(question())
        assert time.monotonic() - began < 3.0
        assert not connection.is_open
        go_on.set()


@pytest.mark.parametrize(
    "frame",
    [b"", b"\xc1", msgpack.packb([1]), msgpack.packb({b"__ndarray__": True})],
    ids=["empty", "no msgpack", "a list", "half an array"],
)
def test_an_answer_that_cannot_be_read_is_told(frame):
    with (
        lingbot_server(lambda _: frame) as fake,
        pytest.raises(PredictionFailed, match="cannot be read"),
    ):
        connected(fake).ask(question())


def test_an_answer_beyond_all_measure_is_not_taken_in():
    with (
        lingbot_server(lambda _: bytes(65 * 1024 * 1024)) as fake,
        pytest.raises(PredictionFailed, match="too big"),
    ):
        connected(fake).ask(question())


def test_nothing_there_is_told_with_what_to_type(silent):
    address = address_of(silent)
    silent.close()
    with pytest.raises(PredictionFailed, match="Connection refused") as caught:
        Connection(address, connect_timeout_s=5.0, reply_timeout_s=5.0)
    assert f"curl http://127.0.0.1:{address.port}/healthz" in caught.value.hint


def test_one_that_never_shakes_hands_is_given_up(silent):
    began = time.monotonic()
    with pytest.raises(PredictionFailed, match="no LingBot server"):
        Connection(address_of(silent), connect_timeout_s=0.3, reply_timeout_s=5.0)
    assert time.monotonic() - began < 3.0


def test_another_protocol_is_told(silent):
    def speak():
        line, _ = silent.accept()
        with line:
            line.recv(1024)
            line.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    threading.Thread(target=speak, daemon=True).start()
    with pytest.raises(PredictionFailed, match="404"):
        Connection(address_of(silent), connect_timeout_s=5.0, reply_timeout_s=5.0)


@contextmanager
def standing_still(listener, *frames):
    """Shake hands, send `frames`, and neither read nor say anything more."""
    done = threading.Event()

    def speak():
        line, _ = listener.accept()
        protocol = ServerProtocol()
        protocol.receive_data(line.recv(65536))
        protocol.send_response(protocol.accept(protocol.events_received()[0]))
        for frame in frames:
            protocol.send_binary(frame)
        with line:
            line.sendall(b"".join(protocol.data_to_send()))
            done.wait(20.0)

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    yield
    done.set()
    thread.join(5.0)


def test_one_that_shakes_hands_and_says_nothing_is_given_up(silent):
    with (
        standing_still(silent),
        pytest.raises(DeadlineExceeded, match="did not greet within 0.3 s"),
    ):
        Connection(address_of(silent), connect_timeout_s=0.3, reply_timeout_s=5.0)


def test_one_that_reads_nothing_does_not_hold_us(silent):
    with standing_still(silent, msgpack.packb(METADATA)):
        connection = Connection(address_of(silent), connect_timeout_s=0.3, reply_timeout_s=5.0)
        # More than the buffers of both sides hold: the rest can only wait for a reader.
        large = {"image": np.zeros(40 * 1024 * 1024, np.uint8)}
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="did not take a question within 0.3 s"):
            connection.ask(large)
        assert time.monotonic() - began < 3.0
        assert not connection.is_open


def test_health_is_asked_over_http(silent):
    with lingbot_server() as fake:
        assert is_healthy("127.0.0.1", fake.port)
    assert not is_healthy(*address_pair(silent), timeout_s=0.2)
    silent.close()


def address_pair(listener):
    address = address_of(listener)
    return address.host, address.port


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("ws://127.0.0.1:8006", "127.0.0.1", 8006),
        ("ws://gpu-3.lab:80/", "gpu-3.lab", 80),
        ("ws://[::1]:9000", "::1", 9000),
    ],
)
def test_addresses(text, host, port):
    address = parse_address(text)
    assert (address.host, address.port) == (host, port)
    assert parse_address(address.url) == address


@pytest.mark.parametrize(
    "text",
    ["", "8006", "127.0.0.1:8006", "http://a:1", "wss://a:1", "ws://a", "ws://a:0", "ws://a:70000",
     "ws://a:1/path", "ws://user@a b:1"],
)  # fmt: skip
def test_what_is_no_address(text):
    with pytest.raises(BadOption, match="no address"):
        parse_address(text)
