# SPDX-License-Identifier: Apache-2.0
"""The host's side of the control channel: each wait has a deadline and looks after the programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

import msgspec

from rpent_box.contracts.control_messages import (
    MODEL_PHASES,
    VIDEO_PHASE,
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
    SimulatorHangs,
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
LONGEST_LOOK_S = 5.0
"""What one look at the programs may take. More than that was a pause of this process itself."""
READ_LOG = "Read the simulator's log in the run's folder"
"""Which of them it is, this does not know: each simulator of a run has its own."""


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
                    hint=f"{READ_LOG}, or allow more: --start-timeout",
                )
            time.sleep(WATCH_S)

    def connect_worker(self, connect: ConnectWorker, *, timeout_s: float) -> WorkerConnected:
        """Let the simulator connect to a worker.

        Raises `IncompatibleWorker` when it does not fit, what the connecting itself raises, and
        `SimulatorHangs` when the simulator says nothing in time.
        """
        question = self._send(connect)
        try:
            reply = self._wait(question, time.monotonic() + timeout_s)
        except DeadlineExceeded as error:
            raise SimulatorHangs(
                f"the simulator hangs: it said nothing for {timeout_s:.0f} s after it was asked to "
                "connect to the worker",
                hint=f"{READ_LOG}.",
            ) from error
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
        prediction_timeout_s: float = 0.0,
    ) -> EpisodePlayed:
        """Play one episode.

        Raises what the simulator server says; `SimulatorHangs` when it gives no sign of progress
        for `stall_timeout_s`, and `prediction_timeout_s` more where it waits for the model; and
        `DeadlineExceeded` when it goes on, but not to the end within `timeout_s`.
        """
        question = self._send(play)
        clock = _ListeningClock()
        heard_s = 0.0
        last = Progress(phase="asked", max_steps=play.max_steps)
        while True:
            reply = self._look(question)
            if reply is None:
                allowed_s = stall_timeout_s
                if last.phase in MODEL_PHASES:
                    allowed_s += prediction_timeout_s
                if clock.passed_s() - heard_s >= allowed_s:
                    raise _hangs(play, last, allowed_s)
            elif isinstance(reply, EpisodePlayed):
                return reply
            elif isinstance(reply, Progress):
                heard_s, last = clock.passed_s(), reply
                on_progress(reply)
            else:
                raise _unwanted(reply, "EpisodePlayed")
            if clock.passed_s() >= timeout_s:
                raise _too_slow(play, last, timeout_s)

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

    def _look(self, question: int) -> ControlReply | None:
        """Return the next answer to `question`, or None after a look at the programs."""
        try:
            return self._receive(question, time.monotonic() + WATCH_S)
        except DeadlineExceeded:
            self._watch()
            return None

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

    def _lost(self, error: PeerGone) -> SimulatorHangs:
        """Let `watch` say what happened to the program; it is seen as ended a moment later."""
        await_death(self._watch, LAST_WORDS_S)
        return SimulatorHangs(
            f"the simulator stopped talking, but its program runs: {error.message}",
            hint=f"{READ_LOG}.",
        )


def await_death(watch: Watch, within_s: float) -> None:
    """Give a program `within_s` seconds to be seen as ended; `watch` then raises `ProgramDied`."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        watch()
        time.sleep(0.02)
    watch()


class _ListeningClock:
    """Counts the seconds in which this process could have heard something.

    A host that was stopped itself, with Ctrl-Z or by a machine out of breath, must not take its own
    pause for the simulator's silence.
    """

    def __init__(self) -> None:
        self._passed_s = 0.0
        self._looked = time.monotonic()

    def passed_s(self) -> float:
        """Return the seconds since the start; asked about at least every `WATCH_S`."""
        now = time.monotonic()
        self._passed_s += min(now - self._looked, LONGEST_LOOK_S)
        self._looked = now
        return self._passed_s


def _hangs(play: PlayEpisode, last: Progress, silent_s: float) -> SimulatorHangs:
    return SimulatorHangs(
        f"the simulator hangs: {_name(play)} gave no sign of progress for {silent_s:.0f} s; "
        f"{_where(play, last)}",
        hint=f"{READ_LOG}: its end shows where the threads stood. Is it only slow? Allow more: "
        "--stall-timeout",
    )


def _too_slow(play: PlayEpisode, last: Progress, limit_s: float) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{_name(play)} goes on, but did not end within {limit_s:.0f} s; {_where(play, last)}",
        hint=f"{READ_LOG}, and worker.log, or allow more: --episode-timeout",
    )


def _name(play: PlayEpisode) -> str:
    return f"episode {play.episode} (init state {play.init_state})"


def _where(play: PlayEpisode, last: Progress) -> str:
    if last.phase == VIDEO_PHASE:
        return f"it stood at: {last.phase}, frame {last.steps}"
    return f"it stood at: {last.phase}, step {last.steps} of {play.max_steps}"


def _unwanted(reply: ControlReply, wanted: str) -> RpentBoxError:
    """Return what the server says went wrong, or that its answer makes no sense."""
    if isinstance(reply, Fault):
        return error_from(reply)
    return SimulatorError(
        f"the simulator server answered {type(reply).__name__}; wanted {wanted}",
        hint="Build the simulator's image or environment from the same release: rpent-box build",
    )
