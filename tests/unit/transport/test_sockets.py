# SPDX-License-Identifier: Apache-2.0
"""Dealer and router, over envelopes of the host-to-simulator conversation."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq

from rpent_box.contracts.control_messages import Closed, CloseSimulator, Progress, SimHello
from rpent_box.contracts.messages import Fault
from rpent_box.errors import (
    DeadlineExceeded,
    PeerGone,
    ProtocolMismatch,
    SocketBusy,
    TransportError,
    UsageError,
)
from rpent_box.transport.dealer import Dealer
from rpent_box.transport.router import Router
from rpent_box.transport.sockets import BindGuard, probe
from rpent_box.transport.wire import poll_ms

Question = SimHello | CloseSimulator
Answer = Progress | Closed | Fault
QUESTIONS = msgspec.msgpack.Decoder(Question)
ANSWERS = msgspec.msgpack.Decoder(Answer)


def refuse(raw: bytes, why: str) -> Answer:
    return Fault(code="protocol_mismatch", message=f"{len(raw)} bytes: {why}")


def bind(endpoint: str) -> Router[Question, Answer]:
    return Router.bind(endpoint, questions=QUESTIONS, refuse=refuse)


def connect(endpoint: str, timeout_s: float = 5.0) -> Dealer[Question, Answer]:
    return Dealer.connect(endpoint, answers=ANSWERS, timeout_s=timeout_s)


@pytest.fixture(params=["ipc", "tcp"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/sim.sock" if request.param == "ipc" else "tcp://127.0.0.1:0"


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


def test_structs_and_frames_go_both_ways(endpoint: str) -> None:
    image = np.arange(200_000, dtype=np.uint8).reshape(100, 2000)
    with bind(endpoint) as router, connect(router.endpoint) as dealer:
        dealer.send(SimHello(protocol=3), [image, b"tail"])
        letter = router.receive(5.0)
        assert letter is not None
        assert letter.question == SimHello(protocol=3)
        assert [bytes(frame) for frame in letter.frames] == [image.tobytes(), b"tail"]
        assert router.send(letter.connection, Progress(phase="acting", steps=2), [image])
        answer, frames = dealer.receive(soon())
        assert answer == Progress(phase="acting", steps=2)
        assert bytes(frames[0]) == image.tobytes()


def test_each_connection_gets_its_own_answers(endpoint: str) -> None:
    with bind(endpoint) as router, connect(router.endpoint) as a, connect(router.endpoint) as b:
        a.send(SimHello(protocol=1))
        b.send(SimHello(protocol=2))
        for _ in range(2):
            letter = router.receive(5.0)
            assert letter is not None
            assert isinstance(letter.question, SimHello)
            router.send(letter.connection, Progress(phase="x", steps=letter.question.protocol))
        assert a.receive(soon())[0] == Progress(phase="x", steps=1)
        assert b.receive(soon())[0] == Progress(phase="x", steps=2)


def test_what_cannot_be_read_is_answered_and_the_next_message_still_arrives(
    endpoint: str,
) -> None:
    with bind(endpoint) as router, connect(router.endpoint) as dealer:
        raw = dealer._socket
        raw.send(b"\xc1 not msgpack")
        raw.send(b"")
        raw.send(msgspec.msgpack.encode({"type": "sim.hello", "protocol": 1, "extra": 2}))
        raw.send(msgspec.msgpack.encode({"type": "nothing"}))
        raw.send(b"\x91" * 100_000)
        dealer.send(CloseSimulator())
        letter = router.receive(5.0)
        assert letter is not None
        assert letter.question == CloseSimulator()
        faults = [dealer.receive(soon())[0] for _ in range(5)]
        assert all(isinstance(fault, Fault) for fault in faults)
        assert "unknown field `extra`" in str(faults[2])


def test_an_answer_that_cannot_be_read_is_a_protocol_mismatch(endpoint: str) -> None:
    with bind(endpoint) as router, connect(router.endpoint) as dealer:
        dealer.send(SimHello(protocol=1))
        letter = router.receive(5.0)
        assert letter is not None
        router.send(letter.connection, {"type": "sim.closed", "news": 1})  # type: ignore[arg-type]
        with pytest.raises(ProtocolMismatch, match="unknown field `news`"):
            dealer.receive(soon())


def test_waiting_ends_at_the_deadline(endpoint: str) -> None:
    with bind(endpoint) as router, connect(router.endpoint) as dealer:
        started = time.monotonic()
        assert router.receive(0.05) is None
        with pytest.raises(DeadlineExceeded):
            dealer.receive(soon(0.05))
        assert 0.1 <= time.monotonic() - started < 2.0


def test_a_wake_ends_a_receive_and_is_not_forgotten_before_it(endpoint: str) -> None:
    with bind(endpoint) as router:
        router.wake()
        router.wake()
        started = time.monotonic()
        assert router.receive(30.0) is None
        threading.Timer(0.05, router.wake).start()
        assert router.receive(30.0) is None
        assert time.monotonic() - started < 10.0
        assert router.receive(0.02) is None


def test_a_server_that_ends_is_noticed_at_once_after_its_last_answer(endpoint: str) -> None:
    router = bind(endpoint)
    with connect(router.endpoint) as dealer:
        dealer.send(SimHello(protocol=1))
        letter = router.receive(5.0)
        assert letter is not None
        router.send(letter.connection, Closed())
        assert dealer.receive(soon())[0] == Closed()
        router.close()
        started = time.monotonic()
        with pytest.raises(PeerGone, match="has ended"):
            dealer.receive(soon(30.0))
        assert time.monotonic() - started < 2.0
        with pytest.raises(PeerGone):
            dealer.send(SimHello(protocol=1))


def test_an_answer_to_a_client_that_hung_up_says_so(endpoint: str) -> None:
    with bind(endpoint) as router:
        with connect(router.endpoint) as dealer:
            dealer.send(SimHello(protocol=1))
            letter = router.receive(5.0)
            assert letter is not None
        deadline = soon()
        while router.send(letter.connection, Closed()):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_socket_is_only_for_its_user_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with bind(f"ipc://{path}") as router:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []
    router.close()


def test_a_path_is_bound_once_and_the_error_names_its_holder(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/a.sock"
    with bind(endpoint) as router, connect(endpoint) as dealer:
        with pytest.raises(SocketBusy, match=f"a.sock is in use .*pid {os.getpid()}"):
            bind(endpoint)
        dealer.send(CloseSimulator())
        assert router.receive(5.0) is not None, "the refused bind must not take the socket away"
    with bind(endpoint):
        pass


def test_a_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(PeerGone, match="nothing listens"):
        connect(f"ipc://{path}")
    with bind(f"ipc://{path}") as router, connect(router.endpoint) as dealer:
        dealer.send(CloseSimulator())
        assert router.receive(5.0) is not None


def test_a_guard_survives_that_its_last_holder_removed_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    first = BindGuard.take(path)
    taken: list[BindGuard] = []

    def take_when_free() -> None:
        deadline = soon(5.0)
        while not taken and time.monotonic() < deadline:
            try:
                taken.append(BindGuard.take(path))
            except SocketBusy:
                time.sleep(0.001)

    thread = threading.Thread(target=take_when_free)
    thread.start()
    time.sleep(0.02)
    first.close()
    thread.join()
    with pytest.raises(SocketBusy):
        BindGuard.take(path)
    taken[0].close()
    first.close()
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_busy_and_a_free_one_is_found() -> None:
    with bind("tcp://127.0.0.1:0") as router:
        assert router.endpoint.startswith("tcp://127.0.0.1:")
        assert not router.endpoint.endswith(":0")
        with pytest.raises(SocketBusy, match="in use"):
            bind(router.endpoint)


def test_tcp_listens_on_the_address_asked_and_no_other() -> None:
    with bind("tcp://127.0.0.1:0") as router:
        port = router.endpoint.rsplit(":", 1)[1]
        with pytest.raises(PeerGone, match="nothing listens"):
            connect(f"tcp://127.0.0.2:{port}")


def test_nothing_at_an_address_is_an_error_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(PeerGone, match="no such socket"):
        connect(f"ipc://{tmp_path}/nobody.sock", timeout_s=30.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(PeerGone, match="nothing listens"):
        connect(f"tcp://127.0.0.1:{port}", timeout_s=30.0)
    assert time.monotonic() - started < 2.0


def test_a_socket_that_may_not_be_written_is_an_error_at_once() -> None:
    with tempfile.TemporaryDirectory(prefix="rb-") as directory:
        os.chmod(directory, 0o755)
        with bind(f"ipc://{directory}/a.sock") as router:
            os.chmod(f"{directory}/a.sock", 0o400)
            assert "may not be written by uid" in probed_by_another_user(router.endpoint)


def probed_by_another_user(endpoint: str) -> str:
    """Return the error of a probe; as `nobody` when we are root, who may write every socket."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            probe(endpoint, timeout_s=5.0)
        except TransportError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


def test_a_directory_that_is_missing_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="cannot bind in"):
        bind(f"ipc://{tmp_path}/missing/a.sock")


def test_a_path_that_is_too_long_is_refused_before_any_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="the kernel takes 107"):
        bind(f"ipc://{tmp_path}/{'a' * 107}.sock")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("endpoint", ["tcp://*:5555", "udp://127.0.0.1:5", "inproc://a", "a"])
def test_only_ipc_and_plain_tcp_addresses_are_bound(endpoint: str) -> None:
    with pytest.raises(UsageError):
        bind(endpoint)


@contextmanager
def stranger(greeting: bytes | None) -> Iterator[str]:
    """Something on a port that is not ours: it says `greeting`, or hangs up at once (None)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                if greeting is None:
                    connection.close()
                else:
                    connection.sendall(greeting)
                    kept.append(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize(
    ("greeting", "wanted", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolMismatch, "does not speak ZeroMQ"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", ProtocolMismatch, "does not speak ZeroMQ"),
        (b"", PeerGone, "said nothing for 0.3 s"),
        (None, PeerGone, "hung up at once"),
    ],
    ids=["a web server", "an ssh server", "silence", "an empty published port"],
)
def test_something_else_at_an_address_is_said_before_the_deadline(
    greeting: bytes | None, wanted: type[TransportError], text: str
) -> None:
    started = time.monotonic()
    with stranger(greeting) as endpoint, pytest.raises(wanted, match=text):
        connect(endpoint, timeout_s=0.3)
    assert time.monotonic() - started < 2.0


def test_a_zeromq_socket_of_another_kind_is_refused(tmp_path: Path) -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
        publisher.bind(f"ipc://{tmp_path}/a.sock")
        with (
            connect(f"ipc://{tmp_path}/a.sock") as dealer,
            pytest.raises((ProtocolMismatch, PeerGone)),
        ):
            dealer.receive(soon(5.0))


NEVER_CLOSED = """
import gc, sys
from rpent_box.contracts.control_messages import Closed, CloseSimulator
from rpent_box.transport.dealer import Dealer
import msgspec

class Holder:
    pass

holder = Holder()
holder.itself = holder
holder.dealer = Dealer.connect(
    sys.argv[1], answers=msgspec.msgpack.Decoder(Closed), timeout_s=5.0
)
holder.dealer.send(CloseSimulator())
if sys.argv[2] == "collected":
    del holder
    gc.collect()
print("asyncio" in sys.modules)
"""


@pytest.mark.parametrize("when", ["collected", "at the end"])
def test_a_dealer_that_is_never_closed_keeps_no_process_from_ending(
    endpoint: str, when: str
) -> None:
    with bind(endpoint) as router:
        done = subprocess.run(
            [sys.executable, "-c", NEVER_CLOSED, router.endpoint, when],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    # Nor does it import what takes longer than the connecting itself.
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.parametrize(
    ("left_s", "ms"), [(-1.0, 0), (0.0, 0), (0.0101, 11), (2.0, 2000), (1e7, 86_400_000)]
)
def test_a_wait_of_any_length_is_one_that_a_poll_takes(left_s: float, ms: int) -> None:
    assert poll_ms(left_s) == ms
    assert poll_ms(1e300) == 86_400_000
    assert zmq.Poller().poll(poll_ms(-left_s)) == []
