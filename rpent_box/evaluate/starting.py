# SPDX-License-Identifier: Apache-2.0
"""A worker and its simulators, started side by side and looked after together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rpent_box.contracts.control_messages import SimReady
from rpent_box.errors import IncompatibleWorker, PeerGone, WorkerDraining
from rpent_box.evaluate.checking import CheckedPrograms
from rpent_box.evaluate.config import ProgramsConfig, StartWatcher
from rpent_box.launch.box import Box
from rpent_box.launch.place import WorkerPlace
from rpent_box.launch.program import Launcher, Program, Running, require_alive
from rpent_box.launch.segments import remove_dead_segments
from rpent_box.launch.worker import wait_ready
from rpent_box.sim.client import LAST_WORDS_S, SimClient, await_death
from rpent_box.sim.guard import remove_socket

UNTOLD = "starting"
"""A simulator's phase before it has said anything."""
HUNG_GRACE_S = 2.0
"""For a hung simulator to hang up by itself: one that only waits in Python can, no other will."""


class Programs:
    """A worker and a simulator. `watch` raises `ProgramDied` when one of them has ended."""

    def __init__(self, launcher: Launcher, box: Box, worker: Running | None = None) -> None:
        """`worker` is one that was started already, and that other simulators may share."""
        self._launcher = launcher
        self._box = box
        self.worker = worker
        """None: the worker is borrowed."""
        self.simulator: Running | None = None

    def start(self, worker: Program | None, simulator: Program) -> None:
        """Start both at once; raises before the first when one of them cannot be started."""
        # The box stops the latest first: the simulator hangs up before its worker goes.
        for program in (worker, simulator):
            if program is not None:
                self._launcher.check(program)
        if worker is not None:
            self.worker = self._launcher.start(worker, self._box)
        self.simulator = self._launcher.start(simulator, self._box)

    def start_simulator(self, program: Program) -> None:
        """Start a simulator beside a worker that was started already."""
        self._launcher.check(program)
        self.simulator = self._launcher.start(program, self._box)

    def replace_simulator(self, program: Program, endpoint: str) -> None:
        """End the simulator in whatever state it is, remove what it leaves, start `program`.

        `endpoint` is where both listen. The worker notices by itself that a client has gone. Raises
        `LaunchError` when something of the old one is still there, and what `Launcher.start` does.
        """
        if self.simulator is not None:
            self.simulator.stop(grace_s=HUNG_GRACE_S)
        # A killed program removes nothing: its frames in the worker's room, and its own socket.
        remove_dead_segments()
        remove_socket(endpoint)
        self.start_simulator(program)

    def how_simulator_ended(self) -> str | None:
        """Say in words how the simulator ended by itself, e.g. `killed by SIGSEGV`.

        None while it runs, and when the worker has ended too: then that is what there is to tell.
        """
        if self.worker is not None and self.worker.exit_status() is not None:
            return None
        status = None if self.simulator is None else self.simulator.exit_status()
        return None if status is None else status.reason

    def watch(self) -> None:
        """Raise `ProgramDied` for a program that has ended, the worker first, with its last log
        lines."""
        require_alive(*(one for one in (self.worker, self.simulator) if one is not None))

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """When the simulator finds its worker gone, say how our worker ended: that says more.

        Raises `ProgramDied` instead. The simulator notices it before the exit status is there, so
        this waits a moment.
        """
        try:
            yield
        except (PeerGone, WorkerDraining):
            if self.worker is not None:
                await_death(self.watch, LAST_WORDS_S)
            raise


def wait_both(
    programs: Programs,
    place: WorkerPlace,
    simulator: SimClient,
    *,
    checked: CheckedPrograms,
    config: ProgramsConfig,
    watcher: StartWatcher,
) -> SimReady:
    """Wait until worker and simulator are ready, telling `watcher` the phases of both.

    Raises `ProgramDied`, `WorkerFailed`, `SimulatorError`, `StartTimeout`, and
    `IncompatibleWorker` when a borrowed worker serves another backend than was named.
    """
    deadline = time.monotonic() + config.start_timeout_s
    relay = _PhaseRelay(simulator, watcher)

    def meanwhile() -> None:
        relay.look()
        programs.watch()

    wait_worker(
        place,
        programs.worker,
        deadline,
        checked=checked,
        say=lambda phase: watcher.on_phase("worker", phase),
        meanwhile=meanwhile,
    )
    if relay.ready is not None:
        return relay.ready
    left_s = max(0.0, deadline - time.monotonic())
    return simulator.wait_ready(timeout_s=left_s, on_phase=relay.tell)


def wait_worker(
    place: WorkerPlace,
    worker: Running | None,
    deadline: float,
    *,
    checked: CheckedPrograms,
    say: Callable[[str], None],
    meanwhile: Callable[[], None],
) -> None:
    """Wait until the worker at `place` is ready, and is the one that was asked for.

    Raises as `launch.worker.wait_ready`, what `meanwhile` raises, and `IncompatibleWorker` when a
    borrowed worker serves another backend than was named.
    """
    health = wait_ready(place.endpoint, worker, deadline, say, meanwhile=meanwhile)
    if checked.spec is None or checked.spec.name == health.backend:
        return
    raise IncompatibleWorker(
        f"the worker at {place.endpoint} serves {health.backend}, not {checked.spec.name}",
        hint=f"Name it (--backend {health.backend}), leave --backend out, or give another "
        "endpoint.",
    )


class _PhaseRelay:
    """Asks the simulator where it stands and tells what is new."""

    def __init__(self, simulator: SimClient, watcher: StartWatcher) -> None:
        self.ready: SimReady | None = None
        self._simulator = simulator
        self._watcher = watcher
        self._told = ""
        self.tell(UNTOLD)

    def look(self) -> None:
        if self.ready is None:
            self.ready = self._simulator.poll_ready()
            self.tell(self._simulator.phase)

    def tell(self, phase: str) -> None:
        if phase != self._told:
            self._told = phase
            self._watcher.on_phase("simulator", phase)
