# SPDX-License-Identifier: Apache-2.0
"""Other processes that are killed, stopped or greedy, and what the transport makes of it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq
from bare_box import make_bare_box, remove_bare_box

from rpent_box.contracts.messages import (
    NO_PAYLOAD,
    GetWamMeta,
    Hello,
    Payload,
    Predicted,
    Reply,
    SlotRef,
    TensorRef,
    WamPredict,
    Welcome,
)
from rpent_box.errors import (
    DeadlineExceeded,
    PeerGone,
    SharedMemoryFull,
    SocketBusy,
    StaleFrame,
    TransportError,
)
from rpent_box.transport.channel import ClientChannel, ServerChannel
from rpent_box.transport.lease import Lease, owner_is_gone
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import Ring, RingView
from rpent_box.transport.segment import Segment, segment_is_dead
from rpent_box.version import PROTOCOL_VERSION

ROOT = Path(__file__).parents[2]
PREDICT = WamPredict(
    instruction="lift", embodiment="e", action_space="s", proprio={}, payload=NO_PAYLOAD
)

SILENT_WORKER = """
import sys
from pathlib import Path
from rpent_box.contracts.messages import Hello, Reply, Welcome
from rpent_box.transport.channel import ServerChannel
from rpent_box.transport.paths import BoxPaths
from rpent_box.version import PROTOCOL_VERSION
paths = BoxPaths.on_host(sys.argv[1], runtime_dir=Path(sys.argv[2]))
channel = ServerChannel.bind(paths.worker_endpoint, box=paths)
print("bound", flush=True)
welcome = Welcome(protocol=PROTOCOL_VERSION, backend="x", kind="wam", state="ready", version="0")
while True:
    incoming = channel.receive(60.0)
    if incoming is not None and isinstance(incoming.request.body, Hello):
        channel.send(incoming.connection, Reply(id=incoming.request.id, body=welcome))
"""

ASKING_CLIENT = """
import sys, time
from pathlib import Path
import numpy as np
from rpent_box.contracts.messages import NO_PAYLOAD, WamPredict
from rpent_box.transport.channel import ClientChannel
from rpent_box.transport.paths import BoxPaths
paths = BoxPaths.on_host(sys.argv[1], runtime_dir=Path(sys.argv[2]))
client = ClientChannel.connect(paths.worker_endpoint, client="x", box=paths, timeout_s=20.0)
body = WamPredict(
    instruction="x", embodiment="e", action_space="s", proprio={}, payload=NO_PAYLOAD
)
client.request(body, timeout_s=20.0, tensors={"primary": np.ones((200, 200, 3), np.uint8)})
print("answered", flush=True)
time.sleep(60.0)
"""

OWNER = """
import subprocess, sys, time
from pathlib import Path
from rpent_box.transport.lease import Lease
from rpent_box.transport.ring import Ring
from rpent_box.transport.paths import BoxPaths
paths = BoxPaths.on_host(sys.argv[1], runtime_dir=Path(sys.argv[2]))
lease = Lease.hold(paths.lease)
ring = Ring.create(paths.segment_name("a"), slots=1, slot_bytes=4096, grants=paths.grants)
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(60.0)
"""

RACING_WRITER = """
import sys
import numpy as np
from rpent_box.transport.ring import Ring
size = 1 << 18
ring = Ring.create(sys.argv[1], slots=1, slot_bytes=size)
frames = [{"all": np.full(size, value, np.uint8)} for value in range(256)]
print("writing", flush=True)
turn = 0
while True:
    payload = ring.write(frames[turn % 256], wait_s=0.0, holder="x")
    ring.free(payload.slot)
    turn += 1
"""


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxPaths]:
    paths = make_bare_box(tmp_path_factory.mktemp("rb"))
    yield paths
    remove_bare_box(paths)


@contextmanager
def program(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run Python code in another process; yield it with its first line of output."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, "the program ended before it was ready"
        yield process, line
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def in_box(code: str, box: BoxPaths) -> AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    return program(code, box.box, str(box.room.parent))


def comes_true(what: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_killed_worker_is_noticed_within_a_second(box: BoxPaths) -> None:
    with in_box(SILENT_WORKER, box) as (worker, _):
        client = ClientChannel.connect(box.worker_endpoint, client="x", box=box, timeout_s=10.0)
        with client:
            killed = []

            def kill_later() -> None:
                time.sleep(0.3)
                killed.append(time.monotonic())
                worker.kill()

            killer = threading.Thread(target=kill_later)
            killer.start()
            with pytest.raises(PeerGone, match="has ended"):
                client.request(
                    PREDICT, timeout_s=60.0, tensors={"primary": np.ones((9, 9, 3), np.uint8)}
                )
            noticed = time.monotonic()
            killer.join()
            assert noticed - killed[0] < 1.0
            with pytest.raises(PeerGone):
                client.request(GetWamMeta(), timeout_s=60.0)


def test_the_socket_of_a_killed_worker_is_stale_and_can_be_bound_again(box: BoxPaths) -> None:
    with in_box(SILENT_WORKER, box) as (worker, _):
        with pytest.raises(SocketBusy, match=f"worker.sock is in use .*pid {worker.pid}"):
            ServerChannel.bind(box.worker_endpoint, box=box)
        worker.kill()
        worker.wait()
    assert box.worker_socket.exists()
    with pytest.raises(PeerGone, match="nothing listens"):
        ClientChannel.connect(box.worker_endpoint, client="x", box=box, timeout_s=30.0)
    with ServerChannel.bind(box.worker_endpoint, box=box) as channel:
        assert channel.endpoint == box.worker_endpoint
    assert list(box.sockets.iterdir()) == []


def test_a_stopped_worker_is_a_deadline_and_a_failed_connection(box: BoxPaths) -> None:
    with in_box(SILENT_WORKER, box) as (worker, _):
        client = ClientChannel.connect(box.worker_endpoint, client="x", box=None, timeout_s=10.0)
        with client:
            os.kill(worker.pid, signal.SIGSTOP)
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded, match="within 0.2 s"):
                client.request(GetWamMeta(), timeout_s=0.2)
            with pytest.raises(PeerGone, match="stopped"):
                ClientChannel.connect(box.worker_endpoint, client="y", box=None, timeout_s=0.2)
            assert time.monotonic() - started < 3.0
            os.kill(worker.pid, signal.SIGCONT)


def test_a_killed_client_is_noticed_and_leaves_nothing_in_the_worker(box: BoxPaths) -> None:
    with ServerChannel.bind(box.worker_endpoint, box=box) as channel:
        client = subprocess.Popen(
            [sys.executable, "-c", ASKING_CLIENT, box.box, str(box.room.parent)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            serve_one_prediction(channel)
            assert client.stdout is not None
            assert client.stdout.readline() == b"answered\n"
            assert channel.gone() == []
            assert len(list(box.results.iterdir())) == 1
        finally:
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()
        assert comes_true(lambda: len(channel.gone()) == 1, within_s=1.0)
        for connection in channel.gone():
            channel.forget(connection)
        assert channel.gone() == []
        assert list(box.results.iterdir()) == []
    (left,) = box.grants.iterdir()
    assert segment_is_dead(left)


def serve_one_prediction(channel: ServerChannel) -> None:
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        incoming = channel.receive(1.0)
        if incoming is None:
            continue
        number = incoming.request.id
        if isinstance(incoming.request.body, Hello):
            body = Welcome(
                protocol=PROTOCOL_VERSION, backend="x", kind="wam", state="ready", version="0"
            )
            channel.send(incoming.connection, Reply(id=number, body=body))
            continue
        tensors = {name: tensor.copy() for name, tensor in incoming.tensors().items()}
        incoming.check()
        payload, frames = channel.pack(incoming.connection, tensors)
        predicted = Predicted(actions=b"", shape=(0, 0), payload=payload)
        channel.send(incoming.connection, Reply(id=number, body=predicted), frames)
        return
    pytest.fail("the client asked nothing")


def test_a_killed_owner_leaves_a_lease_and_a_segment_whose_locks_are_free(box: BoxPaths) -> None:
    with in_box(OWNER, box) as (owner, child):
        granted = box.grants / box.segment_name("a").lstrip("/")
        try:
            assert not owner_is_gone(box.lease)
            assert not segment_is_dead(granted)
            owner.kill()
            owner.wait()
            assert comes_true(lambda: owner_is_gone(box.lease), within_s=1.0)
            assert comes_true(lambda: segment_is_dead(granted), within_s=1.0)
            os.kill(int(child), 0)
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_forked_child_keeps_neither_lease_nor_segment_alive_nor_removes_them(
    box: BoxPaths,
) -> None:
    lease = Lease.hold(box.lease)
    segment = Segment.create(box.segment_name("a"), 4096, grants=box.grants)
    granted = box.grants / segment.name.lstrip("/")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lease.close()
            segment.close()
            os.write(writing, b"closed")
            time.sleep(60.0)
        finally:
            os._exit(0)
    try:
        assert os.read(reading, 6) == b"closed"
        assert granted.exists(), "the child removed its parent's segment"
        assert not owner_is_gone(box.lease)
        assert not segment_is_dead(granted)
        lease.close()
        os.link(granted, granted.with_name("kept"))
        segment.close()
        assert owner_is_gone(box.lease)
        assert segment_is_dead(granted.with_name("kept"))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_every_torn_read_of_a_racing_writer_is_caught() -> None:
    name = f"/rpent-box.{secrets.token_hex(4)}.race"
    read = caught = torn_and_caught = 0
    with program(RACING_WRITER, name) as (writer, _), RingView.open(name) as view:
        deadline = time.monotonic() + 20.0
        while time.monotonic() < deadline and (read < 20 or torn_and_caught < 5):
            sequence = int(view._words[4096 // 8]) // 2 * 2
            payload = Payload(
                slot=SlotRef(segment=name, slot=0, sequence=sequence),
                tensors=(TensorRef(name="all", dtype="uint8", shape=(1 << 18,)),),
            )
            try:
                frame = view.read(payload)["all"].copy()
            except TransportError:
                continue
            torn = bool((frame != frame[0]).any())
            try:
                view.check(payload)
            except StaleFrame:
                caught += 1
                torn_and_caught += torn
                continue
            read += 1
            assert not torn, "half of one frame and half of another passed as one"
        writer.kill()
    Path("/dev/shm", name.lstrip("/")).unlink()
    assert read > 0
    assert torn_and_caught > 0, f"no race was seen: {read} whole reads, {caught} stale ones"


@contextmanager
def small_tmpfs(directory: Path, size: str) -> Iterator[Path]:
    """Mount a file system in memory of `size`; skip where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_full_tmpfs_is_a_clear_error_and_what_fits_still_works(tmp_path: Path) -> None:
    with small_tmpfs(tmp_path, "2m") as directory:
        (directory / "somebody").write_bytes(b"x" * (1 << 20))
        with pytest.raises(SharedMemoryFull) as caught:
            Ring.create("/rpent-box.a", slots=3, slot_bytes=1 << 19, directory=directory)
        assert "1.5 MiB are needed" in caught.value.message
        assert "1.0 MiB are free" in caught.value.message
        assert f"size=1G {directory}" in caught.value.hint
        assert [path.name for path in directory.iterdir()] == ["somebody"]
        ring = Ring.create("/rpent-box.a", slots=1, slot_bytes=1 << 19, directory=directory)
        with ring, RingView.open(ring.name, search=[directory]) as view:
            frame = {"all": np.full(1 << 19, 9, np.uint8)}
            payload = ring.write(frame, wait_s=0.0, holder="x")
            assert (view.read(payload)["all"] == 9).all()


def test_a_segment_cut_short_is_an_error_and_not_a_bus_error(box: BoxPaths) -> None:
    with Ring.create(box.segment_name("a"), slots=1, slot_bytes=1 << 20) as ring:
        payload = ring.write({"all": np.ones(1 << 20, np.uint8)}, wait_s=0.0, holder="x")
        with RingView.open(ring.name) as view:
            os.truncate(Path("/dev/shm", ring.name.lstrip("/")), 8192)
            with pytest.raises(TransportError, match="cut short"):
                view.read(payload)
            os.truncate(Path("/dev/shm", ring.name.lstrip("/")), ring._segment.size)


def test_a_flood_of_garbage_does_not_end_a_worker(box: BoxPaths) -> None:
    with (
        ServerChannel.bind(box.worker_endpoint, box=box) as channel,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as socket,
    ):
        socket.linger = 0
        socket.connect(box.worker_endpoint)
        random = np.random.default_rng(0)
        good = msgspec.msgpack.encode({"id": 1, "timeout_s": 1.0, "body": {"type": "healthz"}})
        for number in range(300):
            raw = bytearray(random.bytes(int(random.integers(0, 200))) if number % 2 else good)
            if number % 2 == 0:
                raw[int(random.integers(len(raw)))] = int(random.integers(256))
            socket.send_multipart([bytes(raw)] + [b"x"] * (number % 4))
            channel.receive(0.0 if number % 50 else 0.1)
            while socket.poll(0):
                socket.recv_multipart()
        while channel.receive(0.1) is not None or socket.poll(0):
            while socket.poll(0):
                socket.recv_multipart()
        socket.send(good)
        incoming = channel.receive(5.0)
        assert incoming is not None
        assert incoming.request.id == 1
