# SPDX-License-Identifier: Apache-2.0
"""The simulator server: opens a platform, connects it to a worker, plays what the host asks."""

from __future__ import annotations

import logging
import platform as machine
import traceback
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from rpent_box.contracts.control_messages import (
    Closed,
    CloseSimulator,
    ConnectWorker,
    ControlReply,
    EpisodePlayed,
    PlayEpisode,
    Progress,
    SimReady,
    WorkerConnected,
)
from rpent_box.contracts.faults import fault_from
from rpent_box.contracts.fit import require_fit
from rpent_box.contracts.messages import Fault, Welcome
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.errors import RpentBoxError, SimulatorError
from rpent_box.sim.control import Call, ControlServer
from rpent_box.sim.episode import Policy, Say, play_episode
from rpent_box.sim.platform import Platform, model_needs
from rpent_box.sim.stacks import stacks_when_silent
from rpent_box.version import PROTOCOL_VERSION, __version__

TAKE_S = 0.5
LAST_WORDS_S = 10.0
"""How long a server whose simulator did not open stays to say so."""

_log = logging.getLogger("rpent_box.sim")


class ConnectedPolicy(Policy, Protocol):
    """What `connect` gives: a `rpent_box.client.ModelClient`."""

    @property
    def welcome(self) -> Welcome: ...

    def close(self) -> None: ...


class SimServer:
    """Answers the control channel from the main thread. `run` returns the exit code.

    `close` is the caller's to call, whatever `run` did: a signal may end `run` at any point.
    """

    def __init__(
        self,
        open_platform: Callable[[], Platform],
        control: ControlServer,
        connect: Callable[[ConnectWorker, PlatformMeta], ConnectedPolicy],
    ) -> None:
        self._open_platform = open_platform
        self._control = control
        self._connect = connect
        self._platform: Platform | None = None
        self._policy: ConnectedPolicy | None = None
        self._prediction_timeout_s = 0.0

    def run(self) -> int:
        """Open the simulator and serve until asked to close; 1 when it cannot be opened."""
        platform = self._open()
        if platform is None:
            return 1
        while True:
            call = self._control.take(TAKE_S)
            if call is None:
                continue
            if isinstance(call.body, CloseSimulator):
                self._control.answer(call, Closed())
                return 0
            self._control.answer(call, self._guarded(platform, call))

    def close(self) -> None:
        """Hang up at the worker and close the simulator. May be called twice."""
        self._drop_policy()
        platform, self._platform = self._platform, None
        if platform is not None:
            platform.close()

    def _open(self) -> Platform | None:
        self._control.stand(Progress(phase="importing the simulator"))
        try:
            self._platform = self._open_platform()
            ready = _ready(self._platform)
        except Exception as error:  # noqa: BLE001 - a simulator may raise anything; it is told
            fault = _fault(error, "the simulator cannot be opened")
            _log.error("%s\n%s", fault.message, fault.detail)
            self._control.stand(fault)
            self._control.wait_until_told(LAST_WORDS_S)
            return None
        _log.info("ready: %s, drawn by %s", ready.platform.name, ready.renderer)
        self._control.stand(ready)
        return self._platform

    def _guarded(self, platform: Platform, call: Call) -> ControlReply:
        try:
            return self._handle(platform, call)
        except Exception as error:  # noqa: BLE001 - a simulator may raise anything; it is told
            fault = _fault(error, "the simulator raised")
            _log.error("%s\n%s", fault.message, fault.detail)
            return fault

    def _handle(self, platform: Platform, call: Call) -> ControlReply:
        if isinstance(call.body, ConnectWorker):
            return self._connect_worker(platform, call.body)
        if isinstance(call.body, PlayEpisode):
            return self._play(platform, call.body, lambda said: self._control.tell(call, said))
        raise SimulatorError(f"the simulator server has no answer to {type(call.body).__name__}")

    def _connect_worker(self, platform: Platform, body: ConnectWorker) -> WorkerConnected:
        self._drop_policy()
        policy = self._connect(body, platform.meta)
        try:
            require_fit(policy.meta, platform.meta, fitting=body.fitting)
        except BaseException:
            policy.close()
            raise
        self._policy = policy
        self._prediction_timeout_s = policy.meta.allowed_s(body.prediction_timeout_s)
        platform.prepare(model_needs(policy.meta))
        _log.info("connected to %s at %s", policy.meta.backend, body.endpoint)
        return WorkerConnected(meta=policy.meta, worker_version=policy.welcome.version)

    def _play(self, platform: Platform, play: PlayEpisode, say: Say) -> EpisodePlayed:
        if self._policy is None:
            raise SimulatorError("an episode cannot be played before a worker is connected")
        with stacks_when_silent(play.stall_timeout_s, self._prediction_timeout_s, say) as tell:
            played = play_episode(platform, self._policy, play, tell)
        _log.info(
            "episode %d, init state %d: %s after %d steps",
            played.episode,
            played.init_state,
            "solved" if played.success else "not solved",
            played.steps,
        )
        if played.video_error:
            _log.warning("episode %d has no video: %s", played.episode, played.video_error)
        return played

    def _drop_policy(self) -> None:
        policy, self._policy = self._policy, None
        if policy is not None:
            policy.close()


def _ready(platform: Platform) -> SimReady:
    ours = {"rpent-box": __version__, "python": machine.python_version()}
    return SimReady(
        protocol=PROTOCOL_VERSION,
        platform=platform.meta,
        versions={**ours, **platform.versions},
        renderer=platform.renderer,
    )


def _fault(error: Exception, what: str) -> Fault:
    """Return `error` as data, with its traceback."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, RpentBoxError):
        # A worker's own traceback says more than ours.
        return fault_from(error) if error.detail else replace(fault_from(error), detail=trace)
    return Fault(
        code=SimulatorError.code,
        message=f"{what}: {type(error).__name__}: {error}",
        hint="Read the simulator's log in the run's folder, or repeat with --verbose.",
        detail=trace,
    )
