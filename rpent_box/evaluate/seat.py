# SPDX-License-Identifier: Apache-2.0
"""The place of a run's simulator: which program sits there, and the line to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from msgspec import Struct
from msgspec.structs import replace

from rpent_box.contracts.control_messages import (
    ConnectWorker,
    EpisodePlayed,
    PlayEpisode,
    Progress,
    SimReady,
    WorkerConnected,
)
from rpent_box.errors import IncompatibleWorker, SimulatorError, SimulatorHangs, StartTimeout
from rpent_box.evaluate.starting import Programs
from rpent_box.launch.program import Program
from rpent_box.sim.client import SimClient

CONNECT_S = 60.0
"""For the simulator to connect to a worker that is ready."""
LAST_LINES = 60


class Patience(Struct, frozen=True, kw_only=True):
    """How long a simulator may take."""

    start_s: float
    episode_s: float
    stall_s: float


class SimulatorSeat:
    """Holds the run's simulator and the line to it. A context manager; close() may be called twice.

    Closing hangs up; the program is the box's to end. `client` is the line to the present one.
    """

    def __init__(
        self,
        programs: Programs,
        program: Program,
        *,
        endpoint: str,
        connect: ConnectWorker,
        patience: Patience,
    ) -> None:
        """`program` has been started and will listen at `endpoint`; `connect` names its worker."""
        self.client = SimClient(endpoint, watch=programs.watch)
        self._programs = programs
        self._program = program
        self._endpoint = endpoint
        self._wanted = connect
        self._patience = patience
        self._replaced = 0
        self._ready: SimReady | None = None
        self._connected: WorkerConnected | None = None
        self._prediction_timeout_s = 0.0

    def __enter__(self) -> SimulatorSeat:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def log(self) -> str:
        """`simulator.log`, and `simulator.1.log` of the first replacement."""
        first = Path(self._program.log)
        return f"{first.stem}.{self._replaced}{first.suffix}" if self._replaced else first.name

    def connect(self, ready: SimReady) -> WorkerConnected:
        """Let the simulator, which has said `ready`, connect to its worker.

        Later ones must show the same and find the same. Raises as `SimClient.connect_worker`;
        `SimulatorError` and `IncompatibleWorker` when something is not what it was.
        """
        _require_same_simulator(self._ready, ready)
        with self._programs.explaining():
            connected = self.client.connect_worker(self._wanted, timeout_s=CONNECT_S)
        _require_same_worker(self._connected, connected)
        self._ready, self._connected = ready, connected
        self._prediction_timeout_s = connected.meta.allowed_s(self._wanted.prediction_timeout_s)
        return connected

    def play(self, play: PlayEpisode, on_progress: Callable[[Progress], None]) -> EpisodePlayed:
        """Play one episode. Raises as `SimClient.play`."""
        with self._programs.explaining():
            return self.client.play(
                replace(play, stall_timeout_s=self._patience.stall_s),
                on_progress,
                timeout_s=self._patience.episode_s,
                stall_timeout_s=self._patience.stall_s,
                prediction_timeout_s=self._prediction_timeout_s,
            )

    def replace(self, on_phase: Callable[[str], None]) -> None:
        """End the present simulator and put another one there, connected to the same worker.

        Raises `SimulatorHangs` when that one is not ready in time, and as `connect`.
        """
        self.client.close()
        self._replaced += 1
        log = str(Path(self._program.log).with_name(self.log))
        self._programs.replace_simulator(replace(self._program, log=log), self._endpoint)
        self.client = SimClient(self._endpoint, watch=self._programs.watch)
        try:
            ready = self.client.wait_ready(timeout_s=self._patience.start_s, on_phase=on_phase)
        except StartTimeout as error:
            raise SimulatorHangs(error.message, hint=error.hint) from error
        self.connect(ready)

    def how_it_ended(self) -> str | None:
        """Say how the simulator ended; None when it runs, or when the worker has ended too."""
        return self._programs.how_simulator_ended()

    def last_lines(self) -> str:
        """Return the end of the simulator's log."""
        simulator = self._programs.simulator
        return "" if simulator is None else simulator.last_log_lines(LAST_LINES)

    def close(self) -> None:
        """Hang up. May be called twice."""
        self.client.close()


def _require_same_simulator(first: SimReady | None, now: SimReady) -> None:
    # Another renderer, for example since the GPU has gone, would go on with other pixels.
    if first is None or first == now:
        return
    shown = [
        f"{name} was {getattr(first, name)}, is {getattr(now, name)}"
        for name in SimReady.__struct_fields__
        if getattr(first, name) != getattr(now, name)
    ]
    raise SimulatorError(
        f"the simulator that was started anew is not what the first one was: {'; '.join(shown)}",
        hint="Episodes of both would not be comparable. See: rpent-box doctor",
    )


def _require_same_worker(first: WorkerConnected | None, now: WorkerConnected) -> None:
    if first is None or first == now:
        return
    raise IncompatibleWorker(
        f"the worker is another one now: it was {first.meta.backend} ({first.meta.checkpoint}), "
        f"is {now.meta.backend} ({now.meta.checkpoint}), or says something else of itself",
        hint="Episodes of both would not be comparable: run again.",
    )
