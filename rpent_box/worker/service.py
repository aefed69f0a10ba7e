# SPDX-License-Identifier: Apache-2.0
"""A worker: the receiving thread's loop, and the life of the whole from loading to its end.

    receiving thread (run)                      inferring thread
    ┌──────────────────────────────┐            ┌─────────────────────────────┐
    │ socket: hello, healthz, meta │   queue    │ load, warm up               │
    │ checks, deadlines, sessions  │ ─────────▶ │ predict, predict_batch      │
    │ rings, replies               │ ◀───────── │ reset, drop, close          │
    └──────────────────────────────┘  answers   └─────────────────────────────┘

A ZeroMQ socket belongs to one thread, so answers go back through the receiving one. It runs in the
main thread, so that signals are heard while a model's native code loads or infers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence

from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import Done, Reply, ReplyBody
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import RpentBoxError, WorkerDraining, WorkerFailed
from rpent_box.transport.channel import ServerChannel
from rpent_box.transport.lease import LeaseWatch
from rpent_box.transport.wire import Frame
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.exchange import predicted_from
from rpent_box.worker.failure import expired
from rpent_box.worker.gathering import FixedGathering, TunedGathering
from rpent_box.worker.inference import InferringThread, LoadBackend
from rpent_box.worker.queue import WorkQueue
from rpent_box.worker.reception import Reception
from rpent_box.worker.status import Status
from rpent_box.worker.tally import Tally
from rpent_box.worker.work import Answer, Prediction

ENDED = 0
FAILED = 1

TICK_S = 0.1
"""How late a signal, a deadline or a lost lease is noticed at most."""

_CLOSE_S = 2.0
"""How long an idle model may take to close."""

_log = logging.getLogger("rpent_box.worker")


class Service:
    """Serves one backend over one channel. `run` is called once, and owns neither."""

    def __init__(
        self,
        load: LoadBackend,
        spec: BackendSpec,
        channel: ServerChannel,
        config: ServiceConfig,
    ) -> None:
        self._channel = channel
        self._config = config
        self._spec = spec
        self._status = Status(spec.name)
        self._tally = Tally()
        self._queue = WorkQueue(
            TunedGathering()
            if config.max_wait_ms is None
            else FixedGathering(config.max_wait_ms / 1000),
            enter=self._tally.enter,
        )
        self._answers: deque[Answer] = deque()
        self._waking = threading.Lock()
        self._ended = False
        self._inferring = InferringThread(
            load=load,
            spec=spec,
            queue=self._queue,
            status=self._status,
            tally=self._tally,
            answer=self._take_answers,
            max_batch=config.max_batch,
            checkpoint_files=config.checkpoint_files,
            facts=config.facts,
        )
        self._reception = Reception(
            spec=spec,
            queue=self._queue,
            status=self._status,
            tally=self._tally,
            meta=lambda: self._inferring.meta,
            shut_down=lambda: self.drain("asked to shut down"),
            channel=channel,
        )
        self._lease = None if config.lease is None else LeaseWatch(config.lease)
        self._asked_to_end = ""
        self._drain_until = 0.0
        self._failed_at: float | None = None
        self._next_look = 0.0
        self._next_sweep = 0.0

    def drain(self, reason: str) -> None:
        """Finish what is queued, refuse what is new, then end. Safe in a signal handler."""
        self._asked_to_end = self._asked_to_end or reason

    def run(self) -> int:
        """Load and serve until drained, shut down, failed or left by the owner: the exit code."""
        self._inferring.start()
        try:
            while True:
                self._turn()
                now = time.monotonic()
                if now < self._next_look:
                    continue
                self._next_look = now + TICK_S
                self._look_after(now)
                code = self._ending(now)
                if code is not None:
                    return code
        finally:
            self._close()

    def _turn(self) -> None:
        """Handle one message, if any, and send what is ready. Short: the model waits meanwhile."""
        incoming = self._channel.receive(TICK_S)
        if incoming is not None:
            body = self._reception.answer(incoming)
            if body is not None:
                self._send(incoming.connection, incoming.request.id, body)
        self._send_answers()

    def _look_after(self, now: float) -> None:
        for work in self._queue.take_expired(now):
            self._tally.answered(refused=1)
            self._send(work.connection, work.request_id, fault_from(expired(work, now)))
        if now >= self._next_sweep:
            self._next_sweep = now + self._config.sweep_s
            self._reception.sweep(now, session_idle_s=self._config.session_idle_s)

    def _ending(self, now: float) -> int | None:
        """Return the exit code once it is time to end."""
        if self._lease is not None and self._lease.is_gone():
            _log.info("the owner is gone: ending at once")
            return ENDED
        if not self._inferring.is_alive():
            self._status.become("failed", reason="the inferring thread has ended")
        if self._status.state == "failed":
            return self._ending_failed(now)
        if self._asked_to_end and self._status.become("draining", reason=self._asked_to_end):
            self._drain_until = now + self._config.drain_s
            self._queue.expect_no_more()
        if self._status.state == "draining":
            return self._ending_drained(now)
        return None

    def _ending_failed(self, now: float) -> int | None:
        """Stay for a while, so that whoever asks healthz learns why."""
        if self._failed_at is None:
            self._failed_at = now
            self._refuse_all(WorkerFailed(f"{self._spec.name} has failed: {self._status.reason}"))
        stayed = now - self._failed_at >= self._config.failed_linger_s
        return FAILED if stayed or self._asked_to_end else None

    def _ending_drained(self, now: float) -> int | None:
        if not any(self._queue.counts()) and not self._answers:
            return ENDED
        if now < self._drain_until:
            return None
        _log.warning("not everything was finished within %.3g s", self._config.drain_s)
        self._refuse_all(
            WorkerDraining(f"{self._spec.name} has ended before this could be predicted")
        )
        return ENDED

    def _refuse_all(self, error: RpentBoxError) -> None:
        """Tell everyone who waits for the model that it will not answer."""
        for work in self._queue.take_all():
            if isinstance(work, Prediction):
                self._tally.answered(refused=1)
            if work.request_id is not None:
                self._send(work.connection, work.request_id, fault_from(error))

    def _take_answers(self, answers: list[Answer]) -> None:
        """Called by the inferring thread."""
        self._answers.extend(answers)
        # Answers first: a drain that finds nothing in flight must find them.
        self._queue.finish()
        with self._waking:
            if not self._ended:
                self._channel.wake()

    def _send_answers(self) -> None:
        while self._answers:
            answer = self._answers.popleft()
            if isinstance(answer.result, ActionChunk):
                self._send_chunk(answer, answer.result)
            else:
                body = Done() if answer.result is None else answer.result
                self._send(answer.connection, answer.request_id, body)

    def _send_chunk(self, answer: Answer, chunk: ActionChunk) -> None:
        future = chunk.future_observation or {}
        try:
            payload, frames = self._channel.pack(answer.connection, future)
        except RpentBoxError as error:
            self._send(answer.connection, answer.request_id, fault_from(error))
            return
        self._send(answer.connection, answer.request_id, predicted_from(chunk, payload), frames)

    def _send(
        self,
        identity: bytes,
        request_id: int,
        body: ReplyBody,
        frames: Sequence[Frame] = (),
    ) -> None:
        delivered = self._channel.send(identity, Reply(id=request_id, body=body), frames)
        connection = self._reception.connections.find(identity)
        if not delivered and connection is not None:
            self._reception.end(connection)

    def _close(self) -> None:
        """Let the model close, unless it is at work: nothing can stop native code."""
        self._queue.stop()
        with self._waking:
            # The channel may be closed from here on; a model left behind must not touch it.
            self._ended = True
        _, in_flight = self._queue.counts()
        idle = self._inferring.meta is not None and not in_flight
        if not self._inferring.join(_CLOSE_S if idle else 0.0):
            _log.warning("the model is still busy; it is left behind")
