# SPDX-License-Identifier: Apache-2.0
"""The serving side of the control channel: one thread talks while the other simulates.

    main thread     open the simulator ── take() ──▶ play ── answer() ──▶ …     GL lives here
    control thread  receive ─▶ hello? answer from `phase` / `ready` / `failed`
                            ─▶ else queue for take()            send what answer() left

A hello is answered at all times and may be asked again: `Progress` says the phase of the start,
`SimReady` ends it, a `Fault` says why there will be no ready.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from types import TracebackType

import msgspec
from msgspec import Struct

from rpent_box.contracts.control_messages import (
    ControlReply,
    ControlRequest,
    Progress,
    SimHello,
    SimReady,
)
from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import Fault, Message
from rpent_box.errors import ProtocolMismatch, SimulatorError
from rpent_box.transport.router import Router
from rpent_box.transport.wire import Letter
from rpent_box.version import PROTOCOL_VERSION

RECEIVE_S = 0.5
FLUSH_S = 2.0
"""How long the last answers may take to leave."""
TELL_S = 1.0
"""How long the control thread may take to hand over one answer; it takes microseconds."""

_log = logging.getLogger("rpent_box.sim")


class ControlQuestion(Message, frozen=True, kw_only=True):
    """The envelope of what the host asks."""

    id: int
    """Chosen by the host, rising; every answer to it carries it back."""
    body: ControlRequest


class ControlAnswer(Message, frozen=True, kw_only=True):
    """The envelope of what the simulator server says; a question may have several answers."""

    id: int
    body: ControlReply


class Call(Struct, frozen=True):
    """One question to answer, and whose it is."""

    connection: bytes
    id: int
    body: ControlRequest


class _Outgoing(Struct, frozen=True):
    """One answer on its way to the control thread."""

    connection: bytes
    answer: ControlAnswer
    left: threading.Event = msgspec.field(default_factory=threading.Event)


class ControlServer:
    """Binds when made, serves while entered. A context manager; close() may be called twice."""

    def __init__(self, endpoint: str) -> None:
        """Bind to `endpoint`. Raises `SocketBusy` or `TransportError`."""
        self._router: Router[ControlQuestion, ControlAnswer] = Router.bind(
            endpoint, questions=msgspec.msgpack.Decoder(ControlQuestion), refuse=_refuse
        )
        self.endpoint = self._router.endpoint
        self._standing: Progress | SimReady | Fault = Progress(phase="starting")
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Outgoing] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._told = threading.Event()
        self._broken: Exception | None = None
        """What ended the control thread, if anything did."""
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def __enter__(self) -> ControlServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stand(self, standing: Progress | SimReady | Fault) -> None:
        """Set what every hello is answered with from now on."""
        self._standing = standing

    def wait_until_told(self, timeout_s: float) -> bool:
        """Wait until some host has been told of a failed start; False when none asked in time."""
        return self._told.wait(timeout_s)

    def take(self, timeout_s: float) -> Call | None:
        """Return the next question, or None after `timeout_s` seconds.

        Raises `SimulatorError` once the control thread has ended, as `answer` does.
        """
        self._require_serving()
        try:
            return self._calls.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def answer(self, call: Call, body: ControlReply) -> None:
        """Send `body` to whoever asked `call`. Never waits."""
        self._put(call, body)

    def tell(self, call: Call, body: ControlReply) -> None:
        """Send `body` to whoever asked `call`, and wait until ZeroMQ's own thread has it.

        What the caller does next may hold the interpreter's lock for ever: this thread could then
        no longer say where it does.
        """
        self._put(call, body).left.wait(TELL_S)

    def _put(self, call: Call, body: ControlReply) -> _Outgoing:
        self._require_serving()
        outgoing = _Outgoing(call.connection, ControlAnswer(id=call.id, body=body))
        self._answers.put(outgoing)
        self._router.wake()
        return outgoing

    def close(self) -> None:
        """Send what is left, then unbind and remove the socket file. May be called twice."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread.is_alive():
            self._router.wake()
            self._thread.join(FLUSH_S)
        self._router.close()

    def _require_serving(self) -> None:
        # Going on without it would be silence: the host would wait for its longest timeout.
        if self._broken is not None:
            raise SimulatorError(
                f"the control thread has ended: {type(self._broken).__name__}: {self._broken}"
            ) from self._broken

    def _serve(self) -> None:
        try:
            self._answer_until_stopped()
        except Exception as error:  # noqa: BLE001 - told by the main thread, which ends the process
            self._broken = error

    def _answer_until_stopped(self) -> None:
        while not self._stopping.is_set():
            letter = self._router.receive(RECEIVE_S)
            if letter is not None:
                self._sort(letter)
            self._send_answers()
        self._send_answers()
        # A message is handed to ZeroMQ's own thread; give that thread time before the close.
        time.sleep(0.05)

    def _sort(self, letter: Letter[ControlQuestion]) -> None:
        question = letter.question
        if isinstance(question.body, SimHello):
            standing = _check_protocol(question.body) or self._standing
            answer = ControlAnswer(id=question.id, body=standing)
            if self._router.send(letter.connection, answer) and isinstance(standing, Fault):
                self._told.set()
        else:
            self._calls.put(Call(letter.connection, question.id, question.body))

    def _send_answers(self) -> None:
        while True:
            try:
                outgoing = self._answers.get_nowait()
            except queue.Empty:
                return
            if not self._router.send(outgoing.connection, outgoing.answer):
                _log.warning("the host that asked question %d has gone", outgoing.answer.id)
            outgoing.left.set()


def _check_protocol(hello: SimHello) -> Fault | None:
    if hello.protocol == PROTOCOL_VERSION:
        return None
    return fault_from(
        ProtocolMismatch(
            f"the host speaks protocol {hello.protocol}, this simulator {PROTOCOL_VERSION}",
            hint="Build the simulator's image or environment from the same release: "
            "rpent-box build",
        )
    )


class _AnyQuestion(Struct):
    """As much of an unreadable envelope as an answer needs."""

    id: int = 0


def _refuse(envelope: bytes, reason: str) -> ControlAnswer:
    try:
        identifier = msgspec.msgpack.decode(envelope, type=_AnyQuestion).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        identifier = 0
    error = ProtocolMismatch(
        f"the simulator server cannot read a message: {reason}",
        hint="Build the simulator's image or environment from the same release: rpent-box build",
    )
    return ControlAnswer(id=identifier, body=fault_from(error))
