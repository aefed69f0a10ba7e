# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq
from answering_worker import PREDICT, Answering, answer, answering, images, welcome

from rpent_box.contracts.messages import (
    Done,
    Fault,
    GetWamMeta,
    Health,
    Healthz,
    Hello,
    Payload,
    Predicted,
    Reply,
    Request,
    SlotRef,
    TensorRef,
    WamPredict,
    WamReset,
)
from rpent_box.errors import (
    BadObservation,
    DeadlineExceeded,
    NoFreeSlot,
    PeerGone,
    ProtocolMismatch,
    SharedMemoryFull,
    StaleFrame,
    TransportError,
    WorkerFailed,
)
from rpent_box.transport import client_channel, server_channel
from rpent_box.transport import connection as worker_side
from rpent_box.transport.channel import ClientChannel, Incoming, ServerChannel
from rpent_box.transport.dealer import Dealer
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import Ring, Tensor
from rpent_box.version import PROTOCOL_VERSION


@pytest.fixture(params=["shared memory", "tcp"])
def worker(request: pytest.FixtureRequest, box: BoxPaths) -> Iterator[ServerChannel]:
    shared = request.param == "shared memory"
    endpoint = box.worker_endpoint if shared else "tcp://127.0.0.1:0"
    with answering(ServerChannel.bind(endpoint, box=box)) as channel:
        yield channel


def connect(worker: ServerChannel, box: BoxPaths, *, share: bool | None = None) -> ClientChannel:
    shared = worker.is_local if share is None else share
    return ClientChannel.connect(
        worker.endpoint, client="sim 0", box=box if shared else None, timeout_s=5.0
    )


def segments(box: BoxPaths) -> list[str]:
    return sorted(path.name for path in box.grants.iterdir())


def test_a_prediction_goes_out_with_images_and_comes_back_with_actions_and_images(
    worker: ServerChannel, box: BoxPaths
) -> None:
    with connect(worker, box) as client:
        assert client.welcome == welcome()
        for value in range(1, 30):
            reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(value))
            assert isinstance(reply, Predicted)
            assert np.frombuffer(reply.actions, np.float32).tolist() == [value, value + 1]
            assert (future["primary"] == 255 - value).all()
            assert (future["wrist"] == 254 - value).all()
            assert future["primary"].flags.writeable
            assert (reply.payload.slot is not None) == worker.is_local
    assert segments(box) == []


def test_small_results_travel_as_frames(worker: ServerChannel, box: BoxPaths) -> None:
    with connect(worker, box) as client:
        reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(3, size=8))
        assert isinstance(reply, Predicted)
        assert reply.payload.slot is None
        assert (future["primary"] == 252).all()


def test_a_client_without_a_box_sends_raw_frames_over_ipc_too(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box, share=False) as client,
    ):
        reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(3))
        assert isinstance(reply, Predicted)
        assert reply.payload.slot is None
        assert (future["wrist"] == 251).all()
        assert segments(box) == []


def test_images_larger_than_the_ring_travel_as_frames(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box) as client,
    ):
        client.request(PREDICT, timeout_s=5.0, tensors=images(3, size=8))
        reply, _ = client.request(PREDICT, timeout_s=5.0, tensors=images(4, size=300))
        assert isinstance(reply, Predicted)
        assert np.frombuffer(reply.actions, np.float32).tolist() == [4, 5]


def test_two_clients_of_one_name_do_not_share_a_ring(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box) as a,
        connect(worker, box) as b,
    ):
        for value, client in ((10, a), (20, b), (30, a)):
            reply, _ = client.request(PREDICT, timeout_s=5.0, tensors=images(value))
            assert isinstance(reply, Predicted)
            assert np.frombuffer(reply.actions, np.float32)[0] == value
        assert len(segments(box)) == 2


def test_room_can_be_reserved_before_the_first_step(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box) as client,
    ):
        client.reserve([(256, 256, 3), (256, 256, 3)])
        (name,) = segments(box)
        assert (box.grants / name).stat().st_size >= 4 * 2 * 196608
        with pytest.raises(SharedMemoryFull), connect(worker, box) as other:
            other.reserve([(1 << 20, 1 << 20, 3)])
        assert segments(box) == [name]


def test_what_the_worker_refuses_is_raised_as_the_same_error(box: BoxPaths) -> None:
    fault = Fault(code="bad_observation", message="camera wrist is missing", hint="h", detail="d")
    with answering(ServerChannel.bind(box.worker_endpoint, box=box), replying(fault)) as worker:
        with connect(worker, box) as client, pytest.raises(BadObservation) as caught:
            client.request(PREDICT, timeout_s=5.0, tensors=images(1))
        assert (caught.value.message, caught.value.hint, caught.value.detail) == (
            "camera wrist is missing",
            "h",
            "d",
        )


def replying(body: Fault | Done | Predicted | Health) -> Answering:
    """Answer hellos as a worker does, and everything else with `body`."""

    def how(channel: ServerChannel, incoming: Incoming) -> None:
        if isinstance(incoming.request.body, Hello):
            answer(channel, incoming)
        else:
            channel.send(incoming.connection, Reply(id=incoming.request.id, body=body))

    return how


class Sluggish:
    """Holds predictions back until told, then answers them late."""

    def __init__(self) -> None:
        self.held: list[Incoming] = []
        self.may_answer = threading.Event()

    def __call__(self, channel: ServerChannel, incoming: Incoming) -> None:
        if isinstance(incoming.request.body, WamPredict) and not self.may_answer.is_set():
            self.held.append(incoming)
            return
        for late in self.held:
            answer(channel, late)
        self.held.clear()
        answer(channel, incoming)


def test_a_timeout_keeps_its_slot_back_and_its_late_reply_is_dropped(box: BoxPaths) -> None:
    how = Sluggish()
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), how) as worker,
        connect(worker, box) as client,
    ):
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="WamPredict: no answer .* within 0.1 s"):
            client.request(PREDICT, timeout_s=0.1, tensors=images(1))
        assert time.monotonic() - started < 2.0
        ring = client._ring
        assert ring is not None
        assert ring.free_slots == 3
        how.may_answer.set()
        reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(50))
        assert isinstance(reply, Predicted)
        assert np.frombuffer(reply.actions, np.float32)[0] == 50, "the late reply said 1"
        assert (future["primary"] == 205).all()
        assert ring.free_slots == 3, "the first slot is back only after a reset"
        assert client.request(WamReset(), timeout_s=5.0)[0] == Done()
        assert ring.free_slots == 4


def test_timeouts_use_up_the_ring_and_the_error_says_by_whom(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), Sluggish()) as worker,
        connect(worker, box) as client,
    ):
        for _ in range(4):
            with pytest.raises(DeadlineExceeded):
                client.request(PREDICT, timeout_s=0.02, tensors=images(1))
        with pytest.raises(NoFreeSlot, match="oldest by request 2 of sim 0.*4 kept back"):
            client.request(PREDICT, timeout_s=0.02, tensors=images(1))


def test_a_refused_reset_gives_no_slot_back(box: BoxPaths) -> None:
    fault = Fault(code="worker_failed", message="no")
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), Sluggish()) as worker,
        connect(worker, box) as client,
    ):
        with pytest.raises(DeadlineExceeded):
            client.request(PREDICT, timeout_s=0.02, tensors=images(1))
        ring = client._ring
        assert ring is not None
        reply = Reply(id=3, body=fault)
        client._wire.receive = lambda deadline: (reply, [])  # type: ignore[method-assign]
        with pytest.raises(WorkerFailed, match="no"):
            client.request(WamReset(), timeout_s=1.0)
        assert ring.free_slots == 3


def test_result_slots_are_given_back_also_those_of_late_replies(box: BoxPaths) -> None:
    how = Sluggish()
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), how) as worker,
        connect(worker, box) as client,
    ):
        with pytest.raises(DeadlineExceeded):
            client.request(PREDICT, timeout_s=0.05, tensors=images(1))
        how.may_answer.set()
        for value in range(2, 12):
            reply, _ = client.request(PREDICT, timeout_s=5.0, tensors=images(value))
            assert isinstance(reply, Predicted)
            assert reply.payload.slot is not None, "no result slot was free"


def test_results_that_are_never_given_back_only_cost_speed(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box) as client,
    ):
        ways = []
        for value in range(1, 6):
            client._release.clear()
            reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(value))
            assert isinstance(reply, Predicted)
            assert (future["primary"] == 255 - value).all()
            ways.append(reply.payload.slot is not None)
        assert ways == [True, True, True, False, False]


def test_a_client_that_leaves_takes_its_result_ring_along(box: BoxPaths) -> None:
    with answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker:
        with connect(worker, box) as client:
            client.request(PREDICT, timeout_s=5.0, tensors=images(1))
            (connection,) = worker._connections
            assert worker.gone() == []
            assert len(list(box.results.iterdir())) == 1
        assert worker.gone() == [connection]
        worker.forget(connection)
        assert list(box.results.iterdir()) == []


def test_a_full_results_directory_only_costs_speed(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_side, "RESULT_SLOTS", 1 << 40)
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box) as client,
    ):
        reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(7))
        assert isinstance(reply, Predicted)
        assert reply.payload.slot is None
        assert (future["primary"] == 248).all()


@pytest.mark.parametrize(
    "segment",
    ["/rpent-box.00000000.other", "/etc/passwd", "../../etc/passwd", "rpent-box.x", ""],
)
def test_a_segment_outside_the_box_is_refused_at_the_hello(box: BoxPaths, segment: str) -> None:
    hello = Hello(protocol=PROTOCOL_VERSION, client="x", segment=segment)
    with answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker:
        reply = ask_raw(
            worker.endpoint, msgspec.msgpack.encode(Request(id=1, timeout_s=1, body=hello))
        )
        assert isinstance(reply.body, Fault)
        assert f"not one of box {box.box}" in reply.body.message
        assert worker._connections == {}


def test_a_worker_does_not_open_another_segment_than_the_hello_named(box: BoxPaths) -> None:
    other = Ring.create(box.segment_name("other"), slots=1, slot_bytes=4096, grants=box.grants)
    with (
        other,
        answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker,
        connect(worker, box) as client,
    ):
        client.request(PREDICT, timeout_s=5.0, tensors=images(1))
        payload = other.write({"primary": np.ones(8, np.uint8)}, wait_s=0.0, holder="x")
        client._pack = lambda tensors: (payload, ())  # type: ignore[method-assign]
        with pytest.raises(TransportError, match="the tensors are not in"):
            client.request(PREDICT, timeout_s=5.0, tensors=images(1))


def test_shared_memory_over_tcp_is_refused_at_the_hello(box: BoxPaths) -> None:
    with (
        answering(ServerChannel.bind("tcp://127.0.0.1:0", box=box)) as worker,
        pytest.raises(TransportError, match="reads no shared memory"),
    ):
        connect(worker, box, share=True)


def test_a_result_in_a_segment_outside_the_box_is_not_opened(box: BoxPaths) -> None:
    slot = SlotRef(segment="/rpent-box.00000000.other", slot=0, sequence=2)
    ref = TensorRef(name="primary", dtype="uint8", shape=(1,))
    body = Predicted(actions=b"", shape=(0, 0), payload=Payload(slot=slot, tensors=(ref,)))
    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), replying(body)) as worker,
        connect(worker, box) as client,
        pytest.raises(TransportError, match="outside this box"),
    ):
        client.request(PREDICT, timeout_s=5.0)


def ask_raw(endpoint: str, *frames: bytes, identity: bytes = b"") -> Reply:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        if identity:
            socket.setsockopt(zmq.IDENTITY, identity)
        socket.connect(endpoint)
        socket.send_multipart(frames)
        assert socket.poll(5000)
        return msgspec.msgpack.decode(socket.recv(), type=Reply)


def test_messages_that_cannot_be_read_are_answered_by_their_id(worker: ServerChannel) -> None:
    future_hello = {
        "id": 9,
        "timeout_s": 1.0,
        "body": {"type": "hello", "protocol": 99, "client": "x", "wish": 1},
    }
    reply = ask_raw(worker.endpoint, msgspec.msgpack.encode(future_hello))
    assert reply.id == 9
    assert isinstance(reply.body, Fault)
    assert reply.body.code == "protocol_mismatch"
    assert "protocol 99" in reply.body.message
    unknown = {"id": 8, "timeout_s": 1.0, "body": {"type": "healthz", "extra": 1}}
    reply = ask_raw(worker.endpoint, msgspec.msgpack.encode(unknown))
    assert reply.id == 8
    assert "unknown field `extra`" in str(reply.body)
    for garbage in (b"", b"\xc1", b"\xff" * 100, b"\x91" * 5000, msgspec.msgpack.encode([1, 2])):
        reply = ask_raw(worker.endpoint, garbage)
        assert reply.id == 0
        assert isinstance(reply.body, Fault)


def test_a_request_before_the_hello_is_refused_but_a_healthz_is_not(box: BoxPaths) -> None:
    health = Health(state="loading", backend="echo", protocol=PROTOCOL_VERSION)
    with answering(ServerChannel.bind(box.worker_endpoint, box=box), replying(health)) as worker:
        early = Request(id=1, timeout_s=1.0, body=GetWamMeta())
        reply = ask_raw(worker.endpoint, msgspec.msgpack.encode(early))
        assert "before a hello" in str(reply.body)
        asked = Request(id=2, timeout_s=1.0, body=Healthz())
        assert ask_raw(worker.endpoint, msgspec.msgpack.encode(asked)).body == health


def test_a_client_cannot_choose_its_connection_id(worker: ServerChannel) -> None:
    hello = Request(id=1, timeout_s=1.0, body=Hello(protocol=PROTOCOL_VERSION, client="x"))
    reply = ask_raw(worker.endpoint, msgspec.msgpack.encode(hello), identity=b"someone")
    assert "do not set a routing id" in str(reply.body)


def test_another_protocol_is_refused_by_both_sides(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, later = PROTOCOL_VERSION, PROTOCOL_VERSION + 1
    monkeypatch.setattr(client_channel, "PROTOCOL_VERSION", later)
    with answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker:
        with pytest.raises(ProtocolMismatch, match=f"speaks protocol {later}, this worker {now}"):
            connect(worker, box)
        monkeypatch.setattr(server_channel, "PROTOCOL_VERSION", later)
        with pytest.raises(ProtocolMismatch, match=f"speaks protocol {now}, we speak {later}"):
            connect(worker, box)


def test_a_wrong_answer_to_a_hello_is_refused(box: BoxPaths) -> None:
    def how(channel: ServerChannel, incoming: Incoming) -> None:
        channel.send(incoming.connection, Reply(id=incoming.request.id, body=Done()))

    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), how) as worker,
        pytest.raises(ProtocolMismatch, match="answered a hello with Done"),
    ):
        connect(worker, box)


def test_a_hello_without_an_answer_ends_at_its_deadline(box: BoxPaths) -> None:
    with ServerChannel.bind(box.worker_endpoint, box=box) as worker:
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="no hello came back"):
            ClientChannel.connect(worker.endpoint, client="x", box=None, timeout_s=0.2)
        assert 0.2 <= time.monotonic() - started < 3.0


def test_a_worker_that_ends_while_it_is_asked_is_noticed_at_once(box: BoxPaths) -> None:
    channel = ServerChannel.bind(box.worker_endpoint, box=box)

    def how(server: ServerChannel, incoming: Incoming) -> None:
        if isinstance(incoming.request.body, Hello):
            answer(server, incoming)
        else:
            server.close()

    over = threading.Event()

    def serve() -> None:
        for _ in range(2):
            incoming = channel.receive(10.0)
            assert incoming is not None
            how(channel, incoming)
        over.set()

    thread = threading.Thread(target=serve)
    thread.start()
    with connect(channel, box) as client:
        started = time.monotonic()
        with pytest.raises(PeerGone):
            client.request(PREDICT, timeout_s=60.0, tensors=images(1))
        assert time.monotonic() - started < 2.0
        with pytest.raises(PeerGone):
            client.request(Healthz(), timeout_s=60.0)
    thread.join()


def test_frames_that_do_not_match_their_description_are_refused(worker: ServerChannel) -> None:
    ref = TensorRef(name="primary", dtype="float32", shape=(2, 2))
    dealer: Dealer[Request, Reply] = Dealer.connect(
        worker.endpoint, answers=msgspec.msgpack.Decoder(Reply), timeout_s=5.0
    )
    with dealer:
        hello = Hello(protocol=PROTOCOL_VERSION, client="x")
        dealer.send(Request(id=1, timeout_s=5.0, body=hello))
        dealer.receive(time.monotonic() + 5.0)
        cases = [
            ((ref,), [b"x" * 15]),
            ((ref,), [b"x" * 17]),
            ((ref,), []),
            ((ref,), [b"x" * 16] * 2),
            ((ref, ref), [b"x" * 16] * 2),
            ((msgspec.structs.replace(ref, shape=(1 << 62, 8)),), [b"x" * 16]),
            ((msgspec.structs.replace(ref, shape=(-2, -2)),), [b"x" * 16]),
        ]
        for number, (refs, frames) in enumerate(cases, start=2):
            body = msgspec.structs.replace(PREDICT, payload=Payload(tensors=refs))
            dealer.send(Request(id=number, timeout_s=5.0, body=body), frames)
            reply, _ = dealer.receive(time.monotonic() + 5.0)
            assert reply.id == number
            assert isinstance(reply.body, Fault), f"{refs} with {len(frames)} frames passed"
            assert reply.body.code == "transport"


def test_tensors_stay_readable_after_their_client_is_forgotten(box: BoxPaths) -> None:
    kept: list[tuple[Incoming, dict[str, Tensor]]] = []

    def how(channel: ServerChannel, incoming: Incoming) -> None:
        if isinstance(incoming.request.body, WamPredict):
            kept.append((incoming, incoming.tensors()))
            channel.forget(incoming.connection)
        answer_body = welcome() if isinstance(incoming.request.body, Hello) else Done()
        channel.send(incoming.connection, Reply(id=incoming.request.id, body=answer_body))

    with answering(ServerChannel.bind(box.worker_endpoint, box=box), how) as worker:
        with connect(worker, box) as client:
            client.request(PREDICT, timeout_s=5.0, tensors=images(77))
        incoming, tensors = kept[0]
        assert (tensors["primary"] == 77).all()
        assert not tensors["primary"].flags.writeable
        with pytest.raises(StaleFrame, match="closed"):
            incoming.check()
        with pytest.raises(StaleFrame, match="closed"):
            incoming.tensors()


def test_only_predictions_carry_tensors(worker: ServerChannel, box: BoxPaths) -> None:
    with (
        connect(worker, box) as client,
        pytest.raises(TransportError, match="Healthz carries no tensors"),
    ):
        client.request(Healthz(), timeout_s=5.0, tensors=images(1))


def test_closing_twice_leaves_nothing(box: BoxPaths) -> None:
    with answering(ServerChannel.bind(box.worker_endpoint, box=box)) as worker:
        client = connect(worker, box)
        client.request(PREDICT, timeout_s=5.0, tensors=images(1))
        client.close()
        client.close()
        worker.wake()
    worker.close()
    assert segments(box) == []
    assert list(box.results.iterdir()) == []
    assert list(box.sockets.iterdir()) == []
    assert not list(Path("/dev/shm").glob(f"rpent-box.{box.box}*"))


def test_the_deadline_of_a_request_is_on_the_workers_own_clock(box: BoxPaths) -> None:
    seen: list[Incoming] = []

    def how(channel: ServerChannel, incoming: Incoming) -> None:
        seen.append(incoming)
        answer(channel, incoming)

    with (
        answering(ServerChannel.bind(box.worker_endpoint, box=box), how) as worker,
        connect(worker, box) as client,
    ):
        client.request(GetWamMeta(), timeout_s=3.0)
    assert 2.0 < seen[-1].deadline - time.monotonic() <= 3.0
