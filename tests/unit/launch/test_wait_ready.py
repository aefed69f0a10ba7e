# SPDX-License-Identifier: Apache-2.0
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tiny_boxes import tiny_program

from rpent_box.contracts.messages import Fault, Health, Hello, Reply, Welcome
from rpent_box.errors import PeerGone, ProgramDied, ProtocolMismatch, StartTimeout, WorkerFailed
from rpent_box.launch import worker as worker_module
from rpent_box.launch.box import Box
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.worker import wait_ready
from rpent_box.transport.channel import ServerChannel
from rpent_box.version import PROTOCOL_VERSION

LOADING = Health(state="loading", reason="reading weights", backend="toy", protocol=1)


class StandIn:
    """Answers hellos and healthz as a worker does, with a `health` that a test sets."""

    def __init__(self, endpoint: str) -> None:
        self.health = LOADING
        self._channel = ServerChannel.bind(endpoint)
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        self._thread.join(10)
        self._channel.close()

    def _serve(self) -> None:
        while not self._stopping:
            incoming = self._channel.receive(0.05)
            if incoming is None:
                continue
            body = incoming.request.body
            answer: Welcome | Health | Fault = self.health
            if isinstance(body, Hello):
                answer = Welcome(
                    protocol=PROTOCOL_VERSION,
                    backend="toy",
                    kind="wam",
                    state=self.health.state,
                    version="0",
                )
            self._channel.send(incoming.connection, Reply(id=incoming.request.id, body=answer))


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/worker.sock"


@pytest.fixture
def stand_in(endpoint: str) -> Iterator[StandIn]:
    one = StandIn(endpoint)
    yield one
    one.close()


def in_s(seconds: float) -> float:
    return time.monotonic() + seconds


def test_phases_are_told_once_each_and_ready_ends_the_wait(
    endpoint: str, stand_in: StandIn
) -> None:
    said: list[str] = []

    def say(phase: str) -> None:
        said.append(phase)
        if phase == "loading: reading weights":
            stand_in.health = msgspec.structs.replace(LOADING, state="warming", reason="")
        elif phase == "warming":
            stand_in.health = msgspec.structs.replace(LOADING, state="ready", reason="")

    health = wait_ready(endpoint, None, in_s(60), say)
    assert health.state == "ready"
    assert said == ["starting", "loading: reading weights", "warming", "ready"]


def test_a_timeout_says_where_it_stood(endpoint: str, stand_in: StandIn) -> None:
    with pytest.raises(StartTimeout, match="it stood at: loading: reading weights") as caught:
        wait_ready(endpoint, None, in_s(1.0), lambda _: None)
    assert "--start-timeout" in caught.value.hint


def test_a_model_that_cannot_be_loaded_brings_its_traceback(
    endpoint: str, stand_in: StandIn
) -> None:
    stand_in.health = msgspec.structs.replace(
        LOADING, state="failed", reason="no such file: w.onnx", detail="Traceback …"
    )
    with pytest.raises(WorkerFailed, match="toy could not be loaded: no such file") as caught:
        wait_ready(endpoint, None, in_s(60), lambda _: None)
    assert caught.value.detail == "Traceback …"


def test_a_program_that_dies_meanwhile_ends_the_wait_at_once(endpoint: str, tmp_path: Path) -> None:
    with Box.create(tmp_path / "rt") as box:
        program = tiny_program(
            box.id, "--exit", "7", "--say", "cannot find my weights", log=tmp_path / "log"
        )
        running = ProcessLauncher().start(program, box)
        with pytest.raises(ProgramDied, match="exit code 7") as caught:
            wait_ready(endpoint, running, in_s(300), lambda _: None)
        assert "cannot find my weights" in caught.value.message


def test_a_borrowed_worker_that_is_not_there_is_not_waited_for_long(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "BORROWED_S", 0.3)
    with pytest.raises(PeerGone, match="no worker answers") as caught:
        wait_ready(endpoint, None, in_s(300), lambda _: None)
    assert "rpent-box serve" in caught.value.hint


def test_others_are_looked_after_meanwhile(endpoint: str, stand_in: StandIn) -> None:
    def raiser(error: Exception) -> Callable[[], None]:
        def look() -> None:
            raise error

        return look

    with pytest.raises(ProgramDied, match="the simulator"):
        wait_ready(
            endpoint,
            None,
            in_s(60),
            lambda _: None,
            meanwhile=raiser(ProgramDied("the simulator has ended")),
        )


def test_a_handshake_that_ran_out_of_time_is_tried_again(
    endpoint: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.health = msgspec.structs.replace(LOADING, state="ready", reason="")
    asked = []
    ask = worker_module._ask

    def breathless(endpoint: str, timeout_s: float) -> Health:
        asked.append(timeout_s)
        if len(asked) < 4:
            raise ProtocolMismatch("the handshake failed")
        return ask(endpoint, timeout_s)

    monkeypatch.setattr(worker_module, "_ask", breathless)
    assert wait_ready(endpoint, None, in_s(60), lambda _: None).state == "ready"
    assert len(asked) == 4


def test_a_worker_that_keeps_speaking_otherwise_is_named_long_before_the_deadline(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "PATIENCE_S", 0.3)

    def stranger(endpoint: str, timeout_s: float) -> Health:
        raise ProtocolMismatch("it speaks protocol 9, we speak 1")

    monkeypatch.setattr(worker_module, "_ask", stranger)
    began = time.monotonic()
    with pytest.raises(ProtocolMismatch, match="protocol 9"):
        wait_ready(endpoint, None, in_s(300), lambda _: None)
    assert time.monotonic() - began < 30
