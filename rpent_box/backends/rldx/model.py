# SPDX-License-Identifier: Apache-2.0
"""RLDX behind its own server, as a backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.noise import noise_seed
from rpent_box.backends.rldx.adapter import RldxAdapter
from rpent_box.backends.rldx.adapter.decode import in_native_order, joined
from rpent_box.backends.rldx.adapter.encode import NativeObservation, flattened
from rpent_box.backends.rldx.modality import Modality
from rpent_box.backends.rldx.past import Recollection
from rpent_box.backends.rldx.prediction_options import prefix_length
from rpent_box.backends.rldx.sessions import NativeNames, Session
from rpent_box.backends.stages import StageClock
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.errors import RpentBoxError, SessionGone
from rpent_box.worker.backend import PredictionInput

NOISE_SEED = "noise_seed"
"""Understood by a server that we started; any other ignores it."""

_GOODBYE_S = 2.0
"""How long closing may take to free what a borrowed server remembers of us."""

_log = logging.getLogger("rpent_box.rldx")


class Server(Protocol):
    """What is asked of an RLDX server; see `RldxClient`."""

    def connect(self) -> int: ...

    def get_action(
        self,
        observation: Mapping[str, object],
        options: Mapping[str, object],
        *,
        connection: int,
        timeout_s: float | None = None,
    ) -> object: ...

    def reset(self, session: str, *, timeout_s: float | None = None) -> None: ...


class Serving(Struct, frozen=True, kw_only=True):
    """How the server is asked. Found out while loading."""

    modality: Modality
    is_flat: bool
    """The server wants flat names: it was started with `--use-sim-policy-wrapper`."""
    seed: int | None
    """None: its noise is its own, and two runs differ."""
    recalls: bool
    """Earlier frames come from the session's own predictions, and not from the platform."""
    prefix_lengths: range | None = None
    """What `rtc_prefix_len` may be; None: the server does no real-time chunking."""


class Rldx:
    """Keeps every session's frames and last chunk apart, as the server keeps its memory."""

    def __init__(
        self,
        server: Server,
        serving: Serving,
        adapter: RldxAdapter,
        meta: ModelMeta,
        *,
        names: NativeNames | None = None,
        held: ExitStack | None = None,
    ) -> None:
        """`held` is closed with this backend: the connection, and a server of ours."""
        self._server = server
        self._serving = serving
        self._adapter = adapter
        self._meta = meta
        self._names = names or NativeNames()
        self._held = held or ExitStack()
        self._sessions: dict[str, Session] = {}

    @property
    def meta(self) -> ModelMeta:
        return self._meta

    def predict(self, request: PredictionInput) -> ActionChunk:
        """Return one chunk.

        Raises `BadOption` and `BadObservation` before anything is sent, and `BadActions` for an
        answer that must not be executed. After any other failure the session must be reset: nobody
        knows whether the server's memory holds this observation.
        """
        length = prefix_length(request.options, self._serving.prefix_lengths)
        session = self._whole_session(request.session)
        clock = StageClock()
        native = self._encoded(request.observation, session)
        options = self._options(request, session, length)
        clock.ended("encode")
        session.is_lost, session.last = True, None
        answer = self._server.get_action(native, options, connection=session.connection)
        session.is_lost = False
        clock.ended("infer")
        values = joined(answer, self._serving.modality)
        actions = self._adapter.decode(values, self._serving.modality)[: self._meta.execute_steps]
        session.is_fresh, session.last = False, values
        session.past.remember(request.observation.images)
        return ActionChunk(
            actions=np.ascontiguousarray(actions),
            metadata=_facts(options),
            timings_s=clock.ended("decode"),
        )

    def reset(self, session: str) -> None:
        """Forget what `session` has shown, here and at the server."""
        former = self._sessions.pop(session, None)
        try:
            connection = self._server.connect()
            self._server.reset(self._names.of(session))
        except RpentBoxError:
            if former is not None:
                former.is_lost = True
                self._sessions[session] = former
            raise
        self._sessions[session] = self._new_session(session, connection)

    def drop(self, session: str) -> None:
        """Free what `session` holds. The server has no way of its own to forget it."""
        if self._sessions.pop(session, None) is not None:
            self._server.reset(self._names.of(session))

    def close(self) -> None:
        """Free what a borrowed server remembers of us, and end a server of ours."""
        deadline = time.monotonic() + _GOODBYE_S
        try:
            while self._sessions and (left_s := deadline - time.monotonic()) > 0:
                _, session = self._sessions.popitem()
                self._server.reset(session.native_id, timeout_s=left_s)
        except RpentBoxError as error:
            _log.warning("the server keeps sessions of this worker: %s", error.message)
        finally:
            self._sessions.clear()
            self._held.close()

    def _whole_session(self, name: str) -> Session:
        """Return a session whose memory at the server is what it should be.

        Raises `SessionGone`: going on with another memory would show as nothing but lower scores.
        """
        connection = self._server.connect()
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = self._new_session(name, connection)
        if session.connection != connection and not session.is_fresh:
            session.is_lost = True
        if session.is_lost:
            raise SessionGone(
                "the RLDX server has failed or hung up in this session: what it remembers of it is "
                "not known",
                hint="Reset, and start the episode again.",
            )
        session.connection = connection
        return session

    def _new_session(self, name: str, connection: int) -> Session:
        past = Recollection(self._serving.modality, self._meta.execute_steps)
        return Session(native_id=self._names.of(name), connection=connection, past=past)

    def _encoded(self, observation: Observation, session: Session) -> NativeObservation:
        if self._serving.recalls:
            observation = Observation(
                images=session.past.with_past(observation.images),
                proprio=observation.proprio,
                instruction=observation.instruction,
            )
        native = self._adapter.encode(observation, self._serving.modality)
        return flattened(native) if self._serving.is_flat else native

    def _options(
        self, request: PredictionInput, session: Session, length: int | None
    ) -> dict[str, object]:
        """Return what goes along with an observation."""
        # A question of before the reset that was given up may reach the server after it: hence
        # the first one says itself that an episode begins.
        options: dict[str, object] = {
            "reset_memory": [session.is_fresh],
            "session_ids": [session.native_id],
        }
        if length is not None and session.last is not None:
            options["action_prefix"] = self._tail(session.last, length)
            options["rtc_prefix_len"] = length
        if self._serving.seed is not None:
            options[NOISE_SEED] = noise_seed(self._serving.seed, request.episode)
        return options

    def _tail(self, last: NDArray[np.floating[Any]], length: int) -> NDArray[np.float32]:
        """Return the steps of a chunk that come right after the executed ones, [length, 12]."""
        start = self._meta.execute_steps
        return in_native_order(last[start : start + length], self._serving.modality)


def _facts(options: Mapping[str, object]) -> dict[str, float | int | str | bool]:
    """Return what is worth knowing of a prediction afterwards."""
    facts: dict[str, float | int | str | bool] = {}
    for name in (NOISE_SEED, "rtc_prefix_len"):
        value = options.get(name)
        if isinstance(value, int):
            facts[name] = value
    return facts
