# SPDX-License-Identifier: Apache-2.0
"""Waiting for a worker to be ready: with a deadline, and with its own words when it is not."""

from __future__ import annotations

import time

from rpent_box.contracts.messages import Figures, GetFigures, Health, Healthz, State
from rpent_box.errors import (
    DeadlineExceeded,
    ProtocolMismatch,
    StartTimeout,
    WorkerDraining,
    WorkerFailed,
)
from rpent_box.transport.channel import ClientChannel

_FIRST_POLL_S = 0.02
_LAST_POLL_S = 0.5


def await_ready(channel: ClientChannel, *, timeout_s: float) -> None:
    """Ask healthz until the worker is ready, for up to `timeout_s` seconds.

    Raises `WorkerFailed` with the worker's traceback as soon as it says so, `WorkerDraining`,
    `StartTimeout` that names the phase it stood in, and `PeerGone` when its process ends.
    """
    deadline = time.monotonic() + timeout_s
    backend = channel.welcome.backend
    state: State = channel.welcome.state
    phase = ""
    pause_s = _FIRST_POLL_S
    while state != "ready":
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise _not_in_time(backend, state, phase, timeout_s)
        try:
            health = ask_health(channel, timeout_s=left_s)
        except DeadlineExceeded as error:
            raise _not_in_time(backend, state, phase, timeout_s) from error
        _refuse_ended(health)
        state, phase = health.state, health.reason
        if state != "ready":
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
            pause_s = min(_LAST_POLL_S, 2 * pause_s)


def ask_health(channel: ClientChannel, *, timeout_s: float) -> Health:
    """Return what the worker says of its state."""
    reply, _ = channel.request(Healthz(), timeout_s=timeout_s)
    if not isinstance(reply, Health):
        raise ProtocolMismatch(f"{channel.endpoint} answered healthz with {type(reply).__name__}")
    return reply


def ask_figures(channel: ClientChannel, *, timeout_s: float) -> Figures:
    """Return what the worker has counted since its model was ready; it answers at all times."""
    reply, _ = channel.request(GetFigures(), timeout_s=timeout_s)
    if not isinstance(reply, Figures):
        raise ProtocolMismatch(
            f"{channel.endpoint} answered worker.figures with {type(reply).__name__}"
        )
    return reply


def _refuse_ended(health: Health) -> None:
    if health.state == "failed":
        raise WorkerFailed(
            f"{health.backend} could not be loaded: {health.reason}", detail=health.detail
        )
    if health.state == "draining":
        raise WorkerDraining(f"{health.backend} is ending and takes nothing new")


def _not_in_time(backend: str, state: State, phase: str, timeout_s: float) -> StartTimeout:
    where = f"{state} ({phase})" if phase else state
    return StartTimeout(
        f"{backend} is not ready after {timeout_s:.3g} s; it is {where}",
        hint="Allow more with --start-timeout, or look into the worker's log.",
    )
