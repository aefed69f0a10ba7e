# SPDX-License-Identifier: Apache-2.0
"""The place of a simulator: which program sits there, and the line to it."""

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
from rpent_box.errors import ContractError, IncompatibleWorker, SimulatorHangs, StartTimeout
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
    """Holds a simulator and the line to it. A context manager; close() may be called twice.

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
        run_dir: Path | None = None,
        first_log: Path | None = None,
        earlier: int = 0,
    ) -> None:
        """`program` has been started and will listen at `endpoint`; `connect` names its worker.

        `run_dir` is what names of logs are within; None: the log's own folder. Where `earlier`
        simulators sat here before, `first_log` is what the very first of them wrote.
        """
        self.client = SimClient(endpoint, watch=programs.watch)
        self._programs = programs
        self.program = program
        """The first one, of this seat's time."""
        self._endpoint = endpoint
        self._wanted = connect
        self._patience = patience
        self._first_log = first_log or Path(program.log)
        self._run_dir = run_dir or self._first_log.parent
        self.replaced = earlier
        """How many simulators sat here before the present one."""
        self.ready: SimReady | None = None
        """What the first simulator here said of itself; None until it was connected."""
        self.connected: WorkerConnected | None = None
        """What it said of its worker."""
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
        """`simulator.log`, and `simulator.1.log` of the first replacement, within the run's
        folder."""
        log = self._log
        if log.is_relative_to(self._run_dir):
            return str(log.relative_to(self._run_dir))
        # On a cluster's machine logs lie beside the episodes, and not among them.
        return log.name

    def connect(self, ready: SimReady) -> WorkerConnected:
        """Let the simulator, which has said `ready`, connect to its worker.

        Later ones must show the same and find the same. Raises as `SimClient.connect_worker`;
        `ContractError` and `IncompatibleWorker` when something is not what it was.
        """
        require_same_simulator(self.ready, ready)
        with self._programs.explaining():
            connected = self.client.connect_worker(self._wanted, timeout_s=CONNECT_S)
        require_same_worker(self.connected, connected)
        self.ready, self.connected = ready, connected
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
        self.replaced += 1
        program = replace(self.program, log=str(self._log))
        self._programs.replace_simulator(program, self._endpoint)
        self.client = SimClient(self._endpoint, watch=self._programs.watch)
        try:
            ready = self.client.wait_ready(timeout_s=self._patience.start_s, on_phase=on_phase)
        except StartTimeout as error:
            raise SimulatorHangs(error.message, hint=error.hint) from error
        self.connect(ready)

    @property
    def _log(self) -> Path:
        return numbered_log(self._first_log, self.replaced)

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


def numbered_log(first: Path, replaced: int) -> Path:
    """Return what the simulator writes that came after `replaced` others: `simulator.2.log`."""
    return first.with_name(f"{first.stem}.{replaced}{first.suffix}") if replaced else first


def require_same_simulator(first: SimReady | None, now: SimReady) -> None:
    """Raise `ContractError` when `now` would simulate or draw otherwise than the `first` one."""
    # Another renderer, for example since the GPU has gone, would go on with other pixels.
    if first is None or first == now:
        return
    shown = [
        f"{name} was {getattr(first, name)}, is {getattr(now, name)}"
        for name in SimReady.__struct_fields__
        if getattr(first, name) != getattr(now, name)
    ]
    raise ContractError(
        f"this simulator is not what the first one was: {'; '.join(shown)}",
        hint="Episodes of both would not be comparable. See: rpent-box doctor",
    )


def require_same_worker(first: WorkerConnected | None, now: WorkerConnected) -> None:
    """Raise `IncompatibleWorker` when `now` is another worker than the `first` one was."""
    if first is None or first == now:
        return
    raise IncompatibleWorker(
        f"the worker is another one now: it was {first.meta.backend} ({first.meta.checkpoint}), "
        f"is {now.meta.backend} ({now.meta.checkpoint}), or says something else of itself",
        hint="Episodes of both would not be comparable: run again.",
    )
