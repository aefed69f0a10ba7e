# SPDX-License-Identifier: Apache-2.0
"""One box: a worker and its simulators, started together and each played on by a thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from rpent_box.contracts.control_messages import ConnectWorker, SimReady, WorkerConnected
from rpent_box.contracts.messages import Figures
from rpent_box.contracts.meta import DEFAULT_PREDICTION_TIMEOUT_S
from rpent_box.errors import DeadlineExceeded, PeerGone, ProgramDied, RpentBoxError, WorkerDraining
from rpent_box.evaluate.config import THREADS
from rpent_box.evaluate.programs import WORKER_LOG
from rpent_box.evaluate.scale.envs import Choice, Machine, first_envs
from rpent_box.evaluate.scale.events import Phase
from rpent_box.evaluate.scale.executor import Source, Tell
from rpent_box.evaluate.scale.figures import FiguresLine
from rpent_box.evaluate.scale.growth import Growth, Look
from rpent_box.evaluate.scale.measuring import this_machine
from rpent_box.evaluate.scale.pinning import CpuSet, cpusets, physical_cores
from rpent_box.evaluate.scale.place import PlaceSetup, PlaceState
from rpent_box.evaluate.scale.player import Player, WorkerGone, first_line
from rpent_box.evaluate.scale.shared import SharedRunning, Stopped
from rpent_box.evaluate.seat import numbered_log
from rpent_box.evaluate.starting import wait_worker
from rpent_box.launch.box import Box
from rpent_box.launch.place import WorkerPlace
from rpent_box.launch.program import Program, Running, require_alive, was_killed
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts

LOOK_S = 0.1
TAKE_STOCK_S = 2.0
END_S = 60.0
"""For all simulators' threads to end, side by side."""
RESERVED_FACTOR = 1.2
"""Of a checkpoint's size: what its worker is expected to take of the memory."""


class Crew:
    """A box, from its making to its end. `play` is the whole of it; all else is for its players."""

    box: Box
    worker: Running | None
    """None: it is borrowed."""
    worker_place: WorkerPlace
    connect: ConnectWorker

    def __init__(
        self,
        setup: PlaceSetup,
        state: PlaceState,
        source: Source,
        tell: Tell,
        stop: threading.Event,
    ) -> None:
        prepared = setup.prepared
        self.setup = setup
        self.state = state
        self.source = source
        self.tell = tell
        self.config = prepared.config
        self.plan = prepared.checked.plan
        self.launcher = prepared.launcher
        self.recipes = prepared.recipes
        self._stop = stop
        self._halt = threading.Event()
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._players: list[Player] = []
        self._lost_seats: set[Player] = set()
        self._end: Exception | None = None
        self._worker_program: Program | None = None
        self._growth = Growth(machine=self._machine)
        self._line = FiguresLine()
        self._served = 0
        self._served_since = 0.0
        """When the worker's count of what it served was first seen to be `_served`."""
        self._allowed_s = DEFAULT_PREDICTION_TIMEOUT_S

    def play(self) -> None:
        """Play until the source has nothing more, or it is told to stop. Then nothing runs.

        Raises `WorkerGone` when the worker has ended, and whatever else ends an evaluation.
        """
        with Box.create(self.config.runtime_dir) as box:
            self.box = box
            try:
                self._start_worker()
                self._start_players(self._first_choice())
                self._wait_worker()
                self._look_after()
            except Stopped:
                pass
            except (WorkerGone, RpentBoxError) as error:
                self.fail(error)
            finally:
                self._halt.set()
                self._line.close()
                self._join()
                self.state.worker_ended()
            # Within the box: what went wrong first matters more than how it ends.
            if self._end is not None:
                raise self._end

    # --- for players ----------------------------------------------------------------------------

    def go_on(self, *, starting: bool = False) -> None:
        """Raise `Stopped` when playing is to end; for who is `starting`, also when all is done."""
        if self._stop.is_set() or self._halt.is_set():
            raise Stopped
        if starting and not self.source.wait(0):
            raise Stopped

    def wait_for_worker(self) -> None:
        """Wait until the worker is ready; how long that may take, `play` looks after."""
        while not self._ready.wait(LOOK_S):
            self.go_on(starting=True)

    def worker_is_gone(self, error: RpentBoxError) -> bool:
        """Say whether `error`, met by a player, comes from the worker's end."""
        if isinstance(error, WorkerDraining):
            return True
        if self.worker is None:
            return isinstance(error, PeerGone)
        return self.worker.exit_status() is not None or self._is_of_no_use(error)

    def _is_of_no_use(self, error: RpentBoxError) -> bool:
        """Say whether the worker runs and answers nobody: it is stopped, or its model hangs.

        One late answer is an episode's misfortune; a worker that has served no one for as long as a
        prediction may take will serve no one any more.
        """
        if not isinstance(error, (DeadlineExceeded, PeerGone)):
            return False
        line = FiguresLine()
        try:
            # That is answered at all times, by another thread than the model's.
            figures = line.ask(self.worker_place.endpoint, borrowed=False)
        finally:
            line.close()
        if figures is None:
            return True
        with self._lock:
            silent_s = time.monotonic() - self._served_since
            is_silent = figures.served == self._served and silent_s >= self._allowed_s
        return is_silent and isinstance(error, DeadlineExceeded)

    def require_worker(self, error: RpentBoxError) -> None:
        """Raise `WorkerGone` when `error`, met by a player, comes from the worker's end."""
        if self.worker_is_gone(error):
            raise self._gone(error) from error

    def agree(self, ready: SimReady, connected: WorkerConnected, simulator: Program) -> None:
        """Compare what a simulator says with what others said. Raises `ContractError`."""
        programs = [] if self._worker_program is None else [self._worker_program]
        self._allowed_s = connected.meta.allowed_s(self.config.prediction_timeout_s)
        self.state.agree(
            SimulatorFacts(meta=ready.platform, versions=ready.versions, renderer=ready.renderer),
            WorkerFacts(meta=connected.meta, rpent_box=connected.worker_version),
            [*programs, simulator],
        )

    def lose_worker(self, error: RpentBoxError) -> None:
        """The worker has ended: all stop."""
        self.fail(self._gone(error))

    def lose_seat(self, player: Player, error: RpentBoxError) -> None:
        """A simulator cannot be had any more: the others play on, if there are any."""
        with self._lock:
            self._lost_seats.add(player)
            stay = [one for one in self._players if not one.is_leaving]
            left = len([one for one in stay if one not in self._lost_seats])
        if left == 0:
            self.fail(error)
            return
        why = f"simulator {player.name} was given up: {first_line(error.message)}"
        self._growth.is_over = True
        self.state.choose(Choice(left, why))

    def fail(self, error: Exception) -> None:
        """All stop. The first that says why is heard."""
        with self._lock:
            if self._end is None:
                self._end = error
        self._halt.set()

    # --- starting -------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        config, setup = self.config, self.setup
        self.worker = None
        self.worker_place = self.box.worker_place
        if config.endpoint is not None:
            self.worker_place = Box.join(config.endpoint)
        log = numbered_log(setup.log_dir / WORKER_LOG, self.state.worker_starts)
        program = self.recipes.worker_program(
            self.box,
            setup.log_dir,
            log=log.name,
            max_batch=config.max_batch,
            max_wait_ms=config.max_wait_ms,
        )
        if program is not None:
            self.launcher.check(program)
            self.state.worker_starts += 1
            self.worker = SharedRunning(self.launcher.start(program, self.box))
        self._worker_program = program
        self.connect = ConnectWorker(
            endpoint=self.worker_place.endpoint_for(self.launcher.view),
            box=self.worker_place.box,
            fitting=setup.prepared.checked.fitting,
            prediction_timeout_s=config.prediction_timeout_s,
        )

    def _first_choice(self) -> Choice:
        if self.state.envs:
            # A box before this one has shown it.
            return Choice(self.state.envs, self.state.why)
        checkpoint = self.setup.prepared.checkpoint
        size = 0 if checkpoint is None else sum(file.size for file in checkpoint.files)
        return first_envs(
            self._machine(),
            asked=self.config.envs,
            jobs=self.setup.jobs,
            reserved=int(RESERVED_FACTOR * size),
        )

    def _machine(self) -> Machine:
        machine, cores = this_machine(), self.setup.cores
        return machine if cores is None else replace(machine, cores=min(machine.cores, cores))

    def _start_players(self, choice: Choice) -> None:
        self.state.choose(choice)
        for number, cpus in enumerate(self._cpusets(choice.envs)):
            self._add_player(number, cpus)

    def _cpusets(self, count: int) -> tuple[CpuSet, ...]:
        if not self.config.pin:
            return ((),) * count
        needs = self.setup.prepared.checked.needs
        computes_here = needs is not None and needs.device == "cpu"
        spare = (self.config.threads or THREADS) if computes_here else 0
        return cpusets(count, physical_cores(os.sched_getaffinity(0)), spare=spare)

    def _add_player(self, number: int, cpus: CpuSet = ()) -> None:
        player = Player(self, number, cpus)
        with self._lock:
            self._players.append(player)
        player.start()

    def _wait_worker(self) -> None:
        component = self.state.component("worker")
        with self._as_worker_gone():
            wait_worker(
                self.worker_place,
                self.worker,
                time.monotonic() + self.config.start_timeout_s,
                checked=self.setup.prepared.checked,
                say=lambda phase: self.tell(Phase(component=component, text=phase)),
                meanwhile=lambda: self.go_on(starting=True),
            )
        self.state.worker_was_ready = True
        self._served_since = time.monotonic()
        self._ready.set()

    # --- while they play ------------------------------------------------------------------------

    def _look_after(self) -> None:
        """Look after the worker, count, and add simulators, until every player has ended."""
        due = time.monotonic()
        while any(player.is_alive for player in self._players):
            if self._halt.wait(LOOK_S):
                return
            if self.worker is not None:
                with self._as_worker_gone():
                    require_alive(self.worker)
            if time.monotonic() >= due:
                self._take_stock()
                due = time.monotonic() + TAKE_STOCK_S
        self._take_stock()

    def _take_stock(self) -> None:
        figures = self._line.ask(self.worker_place.endpoint, borrowed=self.worker is None)
        if figures is not None:
            self._note_served(figures)
            self.state.worker_told(figures)
            self._grow(figures)
        self.state.tell()

    def _note_served(self, figures: Figures) -> None:
        with self._lock:
            if figures.served != self._served:
                self._served, self._served_since = figures.served, time.monotonic()

    def _grow(self, figures: Figures) -> None:
        if self.config.envs is not None or not self._growth.wants_a_look:
            return
        playing = [player for player in self._players if player.is_playing]
        if len(playing) < len(self._players):
            return
        jobs = self.setup.jobs
        choice = self._growth.look(
            Look(
                simulators=tuple(
                    None if one.running is None else one.running.process_id() for one in playing
                ),
                worker=None if self.worker is None else self.worker.process_id(),
                figures=figures,
                finished=self.state.finished,
                jobs=None if jobs is None else max(0, jobs - self.state.finished - len(playing)),
            )
        )
        if choice is not None:
            self.state.choose(choice)
            for number in range(len(self._players), choice.envs):
                self._add_player(number)
            for player in self._players[choice.envs :]:
                player.leave()

    def _join(self) -> None:
        deadline = time.monotonic() + END_S
        for player in self._players:
            player.join(max(0.0, deadline - time.monotonic()))

    @contextmanager
    def _as_worker_gone(self) -> Iterator[None]:
        try:
            yield
        except ProgramDied as error:
            raise self._gone(error) from error

    def _gone(self, error: RpentBoxError) -> WorkerGone:
        return WorkerGone(error, was_killed=was_killed(self.worker))
