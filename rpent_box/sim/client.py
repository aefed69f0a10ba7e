# SPDX-License-Identifier: Apache-2.0
"""The host's side of the control channel: each wait has a deadline and looks after the programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

import msgspec

from rpent_box.contracts.control_messages import (
    Closed,
    CloseSimulator,
    ConnectWorker,
    ControlReply,
    ControlRequest,
    EpisodePlayed,
    PlayEpisode,
    Progress,
    SimHello,
    SimReady,
    WorkerConnected,
)
from rpent_box.contracts.faults import error_from
from rpent_box.contracts.messages import Fault
from rpent_box.errors import (
    DeadlineExceeded,
    PeerGone,
    RpentBoxError,
    SimulatorError,
    StartTimeout,
)
from rpent_box.sim.control import ControlAnswer, ControlQuestion
from rpent_box.transport.dealer import Dealer
from rpent_box.version import PROTOCOL_VERSION

Watch: TypeAlias = Callable[[], None]
"""Raises `ProgramDied` when a program that the run needs has ended."""

WATCH_S = 0.2
"""The longest time between two looks at the programs."""
ASK_AGAIN_S = 0.2
HANDSHAKE_S = 5.0
"""For a server that has bound but hardly gets a core, on a machine where everything starts."""
LAST_WORDS_S = 2.0
"""How long a program that stopped talking may take to be seen as ended."""
CLOSE_S = 5.0


class SimClient:
    """Talks to one simulator server. A context manager; close() may be called twice.

    `watch` is called at least every 0.2 s while anything is waited for.
    """

    def __init__(self, endpoint: str, *, watch: Watch) -> None:
        """Nothing is connected yet: the server may not have bound its socket."""
        self.endpoint = endpoint
        self._watch = watch
        self._dealer: Dealer[ControlQuestion, ControlAnswer] | None = None
        self._last_id = 0
        self._phase = "starting"

    def __enter__(self) -> SimClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def poll_ready(self) -> SimReady | None:
        """Ask once whether the simulator is ready; None when it is not.

        Takes at most 0.2 s, and up to 5 s where something accepts and says nothing. Raises what the
        server says when the simulator cannot be opened.
        """
        if self._dealer is None and not self._connect():
            return None
        question = self._send(SimHello(protocol=PROTOCOL_VERSION))
        try:
            reply = self._receive(question, time.monotonic() + ASK_AGAIN_S)
        except DeadlineExceeded:
            return None
        if isinstance(reply, Progress):
            self._phase = reply.phase
            return None
        if isinstance(reply, SimReady):
            self._phase = "ready"
            return reply
        raise _unwanted(reply, "SimReady")

    @property
    def phase(self) -> str:
        """Where the simulator last said that it stands."""
        return self._phase

    def wait_ready(
        self, *, timeout_s: float, on_phase: Callable[[str], None] = lambda _phase: None
    ) -> SimReady:
        """Wait until the simulator is imported. Raises `StartTimeout` with its last phase."""
        deadline = time.monotonic() + timeout_s
        told = ""
        while True:
            ready = self.poll_ready()
            if self._phase != told:
                told = self._phase
                on_phase(told)
            if ready is not None:
                return ready
            self._watch()
            if time.monotonic() >= deadline:
                raise StartTimeout(
                    f"the simulator was not ready in time; it stood at: {self._phase}",
                    hint="Read simulator.log in the run's folder, or allow more: --start-timeout.",
                )
            time.sleep(WATCH_S)

    def connect_worker(self, connect: ConnectWorker, *, timeout_s: float) -> WorkerConnected:
        """Let the simulator connect to a worker.

        Raises `IncompatibleWorker` when it does not fit, and `DeadlineExceeded`.
        """
        question = self._send(connect)
        reply = self._wait(question, time.monotonic() + timeout_s)
        if isinstance(reply, WorkerConnected):
            return reply
        raise _unwanted(reply, "WorkerConnected")

    def play(
        self,
        play: PlayEpisode,
        on_progress: Callable[[Progress], None],
        *,
        timeout_s: float,
        stall_timeout_s: float,
    ) -> EpisodePlayed:
        """Play one episode.

        Raises what the simulator server says, and `DeadlineExceeded` after `timeout_s`, or when
        it gives no sign of progress for `stall_timeout_s`.
        """
        question = self._send(play)
        deadline = time.monotonic() + timeout_s
        last = Progress(phase="asked", max_steps=play.max_steps)
        while True:
            stalled = time.monotonic() + stall_timeout_s
            try:
                reply = self._wait(question, min(deadline, stalled))
            except DeadlineExceeded as error:
                limit_s = stall_timeout_s if stalled <= deadline else timeout_s
                raise _hangs(play, last, limit_s) from error
            if isinstance(reply, EpisodePlayed):
                return reply
            if not isinstance(reply, Progress):
                raise _unwanted(reply, "EpisodePlayed")
            last = reply
            on_progress(reply)

    def shut_down(self, *, timeout_s: float = CLOSE_S) -> bool:
        """Ask the server to end; tell whether it said that it does."""
        if self._dealer is None:
            return False
        try:
            question = self._send(CloseSimulator())
            return isinstance(self._receive(question, time.monotonic() + timeout_s), Closed)
        except RpentBoxError:
            # It has ended, or will be ended by whoever started it.
            return False

    def close(self) -> None:
        """Close the connection; the server stays. May be called twice."""
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None

    def _connect(self) -> bool:
        decoder = msgspec.msgpack.Decoder(ControlAnswer)
        try:
            self._dealer = Dealer.connect(self.endpoint, answers=decoder, timeout_s=HANDSHAKE_S)
        except PeerGone:
            # Not bound yet. A server that will never bind has ended, and `watch` says so.
            return False
        return True

    def _send(self, body: ControlRequest) -> int:
        if self._dealer is None:
            raise PeerGone(f"the simulator at {self.endpoint} is not connected")
        self._last_id += 1
        try:
            self._dealer.send(ControlQuestion(id=self._last_id, body=body))
        except PeerGone as error:
            raise self._lost(error) from error
        return self._last_id

    def _wait(self, question: int, deadline: float) -> ControlReply:
        """Return the next answer to `question`, looking after the programs meanwhile."""
        while True:
            try:
                return self._receive(question, min(deadline, time.monotonic() + WATCH_S))
            except DeadlineExceeded:
                self._watch()
                if time.monotonic() >= deadline:
                    raise

    def _receive(self, question: int, deadline: float) -> ControlReply:
        if self._dealer is None:
            raise PeerGone(f"the simulator at {self.endpoint} is not connected")
        while True:
            try:
                answer, _ = self._dealer.receive(deadline)
            except PeerGone as error:
                raise self._lost(error) from error
            # Answers to a question that was given up, such as an earlier hello, are dropped.
            if answer.id in (question, 0):
                return answer.body

    def _lost(self, error: PeerGone) -> SimulatorError:
        """Let `watch` say what happened to the program; it is seen as ended a moment later."""
        await_death(self._watch, LAST_WORDS_S)
        return SimulatorError(
            f"the simulator stopped talking, but its program runs: {error.message}",
            hint="Read simulator.log in the run's folder.",
        )


def await_death(watch: Watch, within_s: float) -> None:
    """Give a program `within_s` seconds to be seen as ended; `watch` then raises `ProgramDied`."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        watch()
        time.sleep(0.02)
    watch()


def _hangs(play: PlayEpisode, last: Progress, limit_s: float) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"episode {play.episode} did not go on within {limit_s:.0f} s; it stood at: {last.phase}, "
        f"step {last.steps} of {play.max_steps}",
        hint="Read simulator.log and worker.log in the run's folder.",
    )


def _unwanted(reply: ControlReply, wanted: str) -> RpentBoxError:
    """Return what the server says went wrong, or that its answer makes no sense."""
    if isinstance(reply, Fault):
        return error_from(reply)
    return SimulatorError(
        f"the simulator server answered {type(reply).__name__}; wanted {wanted}",
        hint="Build the simulator's image or environment from the same release: rpent-box build",
    )
