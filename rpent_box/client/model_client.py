# SPDX-License-Identifier: Apache-2.0
"""A model, as the episode loop sees it: meta once, then reset and predict.

What came back is checked here, before anyone can execute it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.client.connecting import ask_health, await_ready
from rpent_box.contracts.checks import check_actions, check_observation
from rpent_box.contracts.messages import (
    NO_PAYLOAD,
    CloseSession,
    EpisodeKey,
    GetVlaMeta,
    GetWamMeta,
    Health,
    Meta,
    Payload,
    Predicted,
    RegisterSession,
    ReplyBody,
    RequestBody,
    VlaPredict,
    VlaReset,
    WamPredict,
    WamReset,
    Welcome,
)
from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.errors import (
    BadActions,
    BadOption,
    DeadlineExceeded,
    ProtocolMismatch,
    RpentBoxError,
)
from rpent_box.transport.channel import ClientChannel
from rpent_box.transport.paths import BoxPaths

QUICK_S = 10.0
"""For what a worker answers without asking its model."""

_CLOSE_S = 0.5

WORKER_STAGES = ("queue", "encode", "infer", "decode")
"""Measured by the worker; the rest of a prediction's round trip is `transport`."""


class ModelClient:
    """One connection to one worker. Belongs to one thread.

    A context manager; close() may be called twice. Connecting resets nothing: call `reset` before
    an episode's first prediction.
    """

    welcome: Welcome
    meta: ModelMeta
    """Fetched once. Connect anew to ask another worker."""

    def __init__(
        self, channel: ClientChannel, *, prediction_timeout_s: float | None = None
    ) -> None:
        """Use a channel to a worker that is ready; closes it when anything is amiss.

        `prediction_timeout_s` wins over the model's own; with neither it is 300 s.
        """
        self._channel = channel
        self._closed = False
        try:
            self.welcome = channel.welcome
            self.meta = self._fetch_meta()
            self.prediction_timeout_s = _keepable(self.meta.allowed_s(prediction_timeout_s))
            if self.meta.uses_sessions:
                self._ask(RegisterSession(), QUICK_S)
        except BaseException:
            channel.close()
            raise

    @classmethod
    def connect(
        cls,
        endpoint: str,
        *,
        client: str,
        box: BoxPaths | None,
        timeout_s: float,
        prediction_timeout_s: float | None = None,
        image_size: tuple[int, int] | None = None,
    ) -> ModelClient:
        """Connect, and wait up to `timeout_s` seconds until the model is ready.

        `client` is for logs and errors; with a `box`, frames go through shared memory, and with
        their `image_size` too (height and width of each camera) it is taken now, so that a full
        one is `SharedMemoryFull` here and not at the first prediction. Raises
        `PeerGone` at once when nobody listens (a worker listens before it loads), `StartTimeout`
        that says in which phase the worker stood, and `WorkerFailed` as soon as the worker says
        that its model cannot be loaded.
        """
        began = time.monotonic()
        channel = ClientChannel.connect(endpoint, client=client, box=box, timeout_s=timeout_s)
        try:
            await_ready(channel, timeout_s=timeout_s - (time.monotonic() - began))
        except BaseException:
            channel.close()
            raise
        model = cls(channel, prediction_timeout_s=prediction_timeout_s)
        if image_size is not None:
            model.reserve(image_size)
        return model

    @property
    def endpoint(self) -> str:
        return self._channel.endpoint

    @property
    def seen(self) -> Payload | None:
        """Where in shared memory the frames of the last prediction are, until the next one.

        None: there was none, or they went through no shared memory.
        """
        return self._channel.shown

    def reserve(self, image_size: tuple[int, int]) -> None:
        """Take the shared memory for cameras of [height, width] now. Closes itself on failure.

        Otherwise the first prediction takes it. Raises `SharedMemoryFull`.
        """
        try:
            self._channel.reserve([(*image_size, 3) for _ in self.meta.camera_roles])
        except BaseException:
            self.close()
            raise

    def predict(
        self,
        observation: Observation,
        *,
        episode: EpisodeKey | None = None,
        options: dict[str, float | int | str | bool] | None = None,
    ) -> ActionChunk:
        """Return one checked chunk: finite float32 [execute_steps, action_dim].

        Sends the cameras and the proprio that the model declares, and nothing else. `timings_s`
        gains `transport`: the round trip less the worker's own stages. Raises `BadObservation`
        before anything is sent, `BadActions` before anything could be executed,
        `DeadlineExceeded`, and what the worker says.
        """
        check_observation(observation, self.meta)
        images = {role: observation.images[role] for role in self.meta.camera_roles}
        body = self._prediction(observation, episode, options or {})
        began = time.monotonic()
        reply, tensors = self._channel.request(
            body, timeout_s=self.prediction_timeout_s, tensors=images
        )
        round_trip_s = time.monotonic() - began
        if not isinstance(reply, Predicted):
            raise _unexpected(reply)
        if round_trip_s > self.prediction_timeout_s:
            # It lay there when we looked, since this process itself was stopped or starved.
            raise DeadlineExceeded(
                f"the answer is {round_trip_s:.3g} s old, allowed were "
                f"{self.prediction_timeout_s:.3g} s; nothing was executed",
                hint="Is this machine overloaded? Allow more with --prediction-timeout.",
            )
        chunk = _chunk(reply, tensors, round_trip_s)
        check_actions(chunk, self.meta)
        return chunk

    def reset(self) -> None:
        """An episode begins: the model forgets the last one, and every frame slot is free again."""
        body = WamReset() if self.welcome.kind == "wam" else VlaReset()
        # It waits its turn behind predictions, so it is given as long as one.
        self._ask(body, self.prediction_timeout_s)

    def health(self) -> Health:
        """Return the worker's state, also while it infers for others."""
        return ask_health(self._channel, timeout_s=QUICK_S)

    def close(self) -> None:
        """Hang up; the worker then forgets this client. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.meta.uses_sessions:
                # A worker that is gone or busy drops the session when it misses us.
                with suppress(RpentBoxError):
                    self._ask(CloseSession(), _CLOSE_S)
        finally:
            self._channel.close()

    def __enter__(self) -> ModelClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fetch_meta(self) -> ModelMeta:
        question = GetWamMeta() if self.welcome.kind == "wam" else GetVlaMeta()
        reply = self._ask(question, QUICK_S)
        if not isinstance(reply, Meta):
            raise _unexpected(reply)
        return reply.meta

    def _ask(self, body: RequestBody, timeout_s: float) -> ReplyBody:
        reply, _ = self._channel.request(body, timeout_s=timeout_s)
        return reply

    def _prediction(
        self,
        observation: Observation,
        episode: EpisodeKey | None,
        options: dict[str, float | int | str | bool],
    ) -> WamPredict | VlaPredict:
        proprio = {
            name: tuple(observation.proprio[name].tolist()) for name in self.meta.proprio_schema
        }
        embodiment = self.meta.control.embodiment
        action_space = self.meta.control.action_space
        if self.welcome.kind == "vla":
            return VlaPredict(
                instruction=observation.instruction,
                embodiment=embodiment,
                action_space=action_space,
                proprio=proprio,
                payload=NO_PAYLOAD,
                episode=episode,
                options=options,
            )
        if options:
            raise BadOption(
                f"{self.meta.backend} is a world action model, which takes no options; got "
                f"{', '.join(options)}"
            )
        return WamPredict(
            instruction=observation.instruction,
            embodiment=embodiment,
            action_space=action_space,
            proprio=proprio,
            payload=NO_PAYLOAD,
            episode=episode,
        )


def _unexpected(reply: ReplyBody) -> ProtocolMismatch:
    return ProtocolMismatch(
        f"the worker answered with {type(reply).__name__}, which is no answer to what was asked",
        hint="Build both images from one release of rpent-box.",
    )


def _keepable(timeout_s: float) -> float:
    if not (np.isfinite(timeout_s) and timeout_s > 0):
        raise BadOption(f"a prediction timeout of {timeout_s} s cannot be kept; wanted more than 0")
    return timeout_s


def _chunk(reply: Predicted, tensors: dict[str, NDArray[Any]], round_trip_s: float) -> ActionChunk:
    steps, action_dim = reply.shape
    if steps < 0 or action_dim < 0 or len(reply.actions) != 4 * steps * action_dim:
        raise BadActions(
            f"the worker sent {len(reply.actions)} bytes of actions; a shape of "
            f"{list(reply.shape)} in float32 needs {4 * steps * action_dim}"
        )
    actions = np.frombuffer(reply.actions, dtype="<f4").reshape(steps, action_dim)
    worker_s = sum(reply.timings_s.get(stage, 0.0) for stage in WORKER_STAGES)
    transport_s = max(0.0, round_trip_s - worker_s)
    return ActionChunk(
        actions=actions.astype(np.float32),
        future_observation=tensors or None,
        value=reply.value,
        metadata=reply.metadata,
        timings_s={**reply.timings_s, "transport": transport_s},
    )
