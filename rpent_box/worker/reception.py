# SPDX-License-Identifier: Apache-2.0
"""What the receiving thread answers at once, what it refuses, and what it queues for the model."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.messages import (
    CloseSession,
    Done,
    Figures,
    GetFigures,
    GetVlaMeta,
    GetWamMeta,
    Healthz,
    Hello,
    Meta,
    RegisterSession,
    ReplyBody,
    RequestBody,
    ResetSession,
    Shutdown,
    VlaPredict,
    VlaReset,
    WamPredict,
    WamReset,
    Welcome,
)
from rpent_box.contracts.meta import ModelMeta
from rpent_box.errors import (
    BadOption,
    IncompatibleWorker,
    ProtocolMismatch,
    RpentBoxError,
    SessionGone,
    TransportError,
    WorkerDraining,
    WorkerFailed,
    WorkerNotReady,
)
from rpent_box.transport.channel import Incoming, ServerChannel
from rpent_box.version import PROTOCOL_VERSION, __version__
from rpent_box.worker.backend import Backend, BackendSpec, PredictionInput
from rpent_box.worker.connections import SILENT_S, Connection, Connections
from rpent_box.worker.exchange import observation_from, require_same_control
from rpent_box.worker.failure import unexpected_fault
from rpent_box.worker.queue import WorkQueue
from rpent_box.worker.status import Status
from rpent_box.worker.tally import Tally
from rpent_box.worker.work import Errand, Prediction

_KINDS: dict[type[RequestBody], Literal["vla", "wam"]] = {
    GetWamMeta: "wam",
    WamPredict: "wam",
    WamReset: "wam",
    GetVlaMeta: "vla",
    VlaPredict: "vla",
    VlaReset: "vla",
}

_log = logging.getLogger("rpent_box.worker")


class Reception:
    """Answers each request, or queues it and answers later. Never waits for the model."""

    def __init__(
        self,
        *,
        spec: BackendSpec,
        queue: WorkQueue,
        status: Status,
        tally: Tally,
        meta: Callable[[], ModelMeta | None],
        shut_down: Callable[[], None],
        channel: ServerChannel,
    ) -> None:
        self.connections = Connections()
        self._spec = spec
        self._queue = queue
        self._status = status
        self._tally = tally
        self._meta = meta
        self._shut_down = shut_down
        self._channel = channel

    def answer(self, incoming: Incoming) -> ReplyBody | None:
        """Return what to reply now; None when the inferring thread will answer."""
        try:
            return self._answer(incoming)
        except RpentBoxError as error:
            fault = fault_from(error)
        except Exception as error:  # noqa: BLE001 - one client must not end a worker of others
            _log.exception("a request could not be handled")
            fault = unexpected_fault(error)
        if isinstance(incoming.request.body, (WamPredict, VlaPredict)):
            self._tally.answered(refused=1)
        return fault

    def sweep(self, now: float, *, session_idle_s: float) -> None:
        """End dead connections, and drop the memory of those that have been silent for long."""
        meta = self._meta()
        gone = set(self._channel.gone())
        for connection in self.connections:
            if self._queue.holds(connection.identity):
                # Who waits for an answer is not silent, however long the model takes.
                connection.seen = now
            silent_s = now - connection.seen
            if connection.identity in gone or silent_s > SILENT_S:
                self.end(connection)
            elif meta is not None and meta.uses_sessions and silent_s > session_idle_s:
                self._drop_session(connection)

    def end(self, connection: Connection) -> None:
        """Forget a connection, its queued predictions and its memory."""
        _log.info("%r is gone", connection.client)
        self._queue.forget(connection.identity)
        self._drop_session(connection)
        self._channel.forget(connection.identity)
        self.connections.remove(connection)

    def _answer(self, incoming: Incoming) -> ReplyBody | None:
        body = incoming.request.body
        if isinstance(body, Healthz):
            queued, in_flight = self._queue.counts()
            return self._status.health(
                queued=queued, in_flight=in_flight, sessions=self.connections.sessions
            )
        if isinstance(body, GetFigures):
            return self._figures()
        if isinstance(body, Hello):
            return self._welcome(incoming.connection, body)
        connection = self.connections.known(incoming.connection, time.monotonic())
        if isinstance(body, Shutdown):
            return self._refuse_or_shut_down()
        self._require_kind(body)
        if isinstance(body, (GetWamMeta, GetVlaMeta)):
            return Meta(meta=self._require_meta())
        self._require_ready()
        if isinstance(body, RegisterSession):
            # The id is all there is to it: no model is asked, so nobody waits for a busy one.
            connection.open_session()
            return Done()
        self._queue.require_room(connection.identity)
        if isinstance(body, (WamPredict, VlaPredict)):
            self._queue_prediction(connection, incoming, body)
        else:
            self._queue_session_operation(connection, incoming.request.id, body)
        return None

    def _welcome(self, identity: bytes, hello: Hello) -> Welcome:
        """Begin anew with this connection; the channel has checked protocol and segment."""
        former = self.connections.find(identity)
        if former is not None:
            self._queue.forget(identity)
            self._drop_session(former)
        self.connections.add(
            Connection(identity=identity, client=hello.client, seen=time.monotonic())
        )
        return Welcome(
            protocol=PROTOCOL_VERSION,
            backend=self._spec.name,
            kind=self._spec.kind,
            state=self._status.state,
            version=__version__,
        )

    def _figures(self) -> Figures:
        meta = self._meta()
        max_batch = 1 if meta is None else meta.max_batch
        return self._tally.figures(
            max_batch=max_batch,
            max_wait_s=self._queue.wait_s if max_batch > 1 else 0.0,
            tuned=self._queue.tuned and max_batch > 1,
        )

    def _refuse_or_shut_down(self) -> Done:
        if not self._channel.is_local:
            raise TransportError(
                "a worker is not shut down over tcp",
                hint="Send SIGTERM to its process on its own machine.",
            )
        self._shut_down()
        return Done()

    def _require_kind(self, body: RequestBody) -> None:
        kind = _KINDS.get(type(body), self._spec.kind)
        if kind != self._spec.kind:
            raise IncompatibleWorker(
                f"{self._spec.name} is a {self._spec.kind} model; it was asked as a {kind} model",
                hint=f"Use the {self._spec.kind}.* requests, as `kind` in the welcome says.",
            )

    def _require_meta(self) -> ModelMeta:
        meta = self._meta()
        if meta is None:
            raise self._not_ready()
        return meta

    def _require_ready(self) -> None:
        if self._status.state != "ready":
            raise self._not_ready()

    def _not_ready(self) -> RpentBoxError:
        state, reason = self._status.state, self._status.reason
        if state == "failed":
            return WorkerFailed(
                f"{self._spec.name} could not be loaded: {reason}", detail=self._status.detail
            )
        if state == "draining":
            return WorkerDraining(f"{self._spec.name} is ending and takes nothing new")
        return WorkerNotReady(
            f"{self._spec.name} is not ready: {state}{f' ({reason})' if reason else ''}",
            hint="Ask healthz until its state is ready.",
        )

    def _queue_prediction(
        self, connection: Connection, incoming: Incoming, body: WamPredict | VlaPredict
    ) -> None:
        timeout_s = incoming.request.timeout_s
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise BadOption(f"a prediction needs a positive timeout, got {timeout_s} s")
        meta = self._require_meta()
        require_same_control(body, meta)
        observation = observation_from(body, incoming.tensors(), meta)
        self._queue.put(
            Prediction(
                connection=connection.identity,
                request_id=incoming.request.id,
                received=incoming.arrived,
                deadline=incoming.deadline,
                input=PredictionInput(
                    observation=observation,
                    session=_session_of(connection, meta),
                    episode=body.episode,
                    options=body.options if isinstance(body, VlaPredict) else {},
                ),
                recheck=incoming.check,
            )
        )

    def _queue_session_operation(
        self, connection: Connection, request_id: int, body: RequestBody
    ) -> None:
        run: Callable[[Backend], None]
        if isinstance(body, CloseSession):
            run = partial(_drop, session=connection.session)
            connection.session = None
        elif isinstance(body, (ResetSession, WamReset, VlaReset)):
            run = partial(_reset, session=connection.open_session())
        else:
            raise ProtocolMismatch(f"this worker does not answer {type(body).__name__}")
        self._queue.put(Errand(connection=connection.identity, request_id=request_id, run=run))

    def _drop_session(self, connection: Connection) -> None:
        if connection.session is not None:
            run = partial(_drop, session=connection.session)
            connection.session = None
            self._queue.put(Errand(connection=connection.identity, request_id=None, run=run))


def _session_of(connection: Connection, meta: ModelMeta) -> str:
    """Return whose memory to use. Going on with an empty one would be silent amnesia."""
    if meta.uses_sessions and connection.session is None:
        raise SessionGone(
            f"{connection.client} has no session in {meta.backend}: none was registered, or it "
            "was dropped after a long silence",
            hint="Reset at the start of an episode: that opens a session too.",
        )
    return connection.open_session()


def _reset(backend: Backend, *, session: str) -> None:
    backend.reset(session)


def _drop(backend: Backend, *, session: str | None) -> None:
    if session is not None:
        backend.drop(session)
