# SPDX-License-Identifier: Apache-2.0
"""One simulator of a box, and the thread that plays on it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rpent_box.contracts.control_messages import EpisodePlayed, PlayEpisode, Progress, Restart
from rpent_box.errors import (
    ContractError,
    IncompatibleWorker,
    OutputError,
    ProgramDied,
    RpentBoxError,
    SimulatorError,
    SimulatorHangs,
    UsageError,
)
from rpent_box.evaluate.scale.events import Failed, Finished, Left, Moved, Phase, Restarted
from rpent_box.evaluate.scale.pinning import CpuSet
from rpent_box.evaluate.scale.place import spent_on
from rpent_box.evaluate.scale.plan import Job, TaskKey, key_of
from rpent_box.evaluate.scale.shared import HeedingPrograms, Stopped
from rpent_box.evaluate.seat import Patience, SimulatorSeat, numbered_log
from rpent_box.evaluate.watchdog import RESTARTS, play_again_if_lost
from rpent_box.launch.program import Running, was_killed
from rpent_box.launch.simulator import simulator_output_dir
from rpent_box.sim.results import episode_folder, episode_folder_name

if TYPE_CHECKING:
    from rpent_box.evaluate.scale.crew import Crew

TAKE_S = 0.2
"""How long to wait for a job before looking whether playing is to end."""
END_S = 5.0
"""For a simulator that was told to end."""

_logger = logging.getLogger(__name__)


class SeatLost(Exception):  # noqa: N818 - carries one, and never leaves this room
    """A simulator cannot be had any more; others may play on. Carries the reason."""

    def __init__(self, error: RpentBoxError) -> None:
        super().__init__(error.message)
        self.error = error


class WorkerGone(Exception):  # noqa: N818 - as above
    """The worker has ended. Carries how, and whether by a signal."""

    def __init__(self, error: RpentBoxError, *, was_killed: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.was_killed = was_killed


class Player:
    """Starts a simulator, takes jobs and plays them until there are none; then ends it.

    All of it, the line to the simulator above all, is the thread's own. To `play_again_if_lost` it
    is the simulator's seat.
    """

    def __init__(self, crew: Crew, number: int, cpus: CpuSet) -> None:
        self.name = crew.state.simulator_name(number)
        self.is_playing = False
        """Its simulator is connected, and it takes jobs."""
        self.is_leaving = False
        """It takes no more: the others are as quick without it."""
        self._crew = crew
        self._number = number
        self._cpus = cpus
        self._programs = HeedingPrograms(
            crew.launcher, crew.box, crew.worker, lambda: crew.go_on(starting=not self.is_playing)
        )
        self._seat: SimulatorSeat | None = None
        self._thread = threading.Thread(
            target=self._live, name=f"simulator {self.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Have it end once it has played what it plays now."""
        self.is_leaving = True

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; say whether it has come."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def running(self) -> Running | None:
        """The present simulator."""
        return self._programs.simulator

    # --- the thread -----------------------------------------------------------------------------

    def _live(self) -> None:
        crew = self._crew
        try:
            self._sit_down()
            self._play_all()
        except Stopped:
            pass
        except WorkerGone as gone:
            crew.lose_worker(gone.error)
        except SeatLost as lost:
            crew.lose_seat(self, lost.error)
        except Exception as error:  # noqa: BLE001 - a defect of ours must reach the caller too
            crew.fail(error)
        finally:
            self.is_playing = False
            self._leave()

    def _play_all(self) -> None:
        job = self._next(holding=None)
        while job is not None:
            if not self._play(job):
                # Before there is a next job: it must not suffer for this one.
                self._sit_down()
            job = self._next(holding=job.task_key)

    def _next(self, *, holding: TaskKey | None) -> Job | None:
        with self._spending("idle"):
            return self._taken(holding)

    def _taken(self, holding: TaskKey | None) -> Job | None:
        while not self.is_leaving:
            self._crew.go_on()
            job = self._crew.source.take(self.name, holding)
            if job is not None:
                return job
            if not self._crew.source.wait(TAKE_S):
                break
        return None

    def _leave(self) -> None:
        self._crew.source.leave(self.name)
        if self._seat is not None:
            self._crew.state.note_replacements(self._number, self._seat.replaced + 1)
            self._seat.close()
        if self._programs.simulator is not None:
            try:
                self._programs.simulator.stop(grace_s=END_S)
            except RpentBoxError as error:
                # The box tries again, and says so if that fails too.
                _logger.warning("%s", error)
        self._crew.tell(Left(simulator=self.name))

    # --- starting -------------------------------------------------------------------------------

    def _sit_down(self) -> None:
        """Put a fresh simulator here, connected to the worker.

        Tries again where something kills it while it starts, and where an earlier one could start.
        """
        self.is_playing = False
        with self._spending("starting"):
            for attempt in range(RESTARTS + 1):
                try:
                    self._try_to_sit_down()
                except (ProgramDied, SimulatorHangs) as error:
                    self._crew.require_worker(error)
                    may_be_chance = self._has_sat or was_killed(self.running)
                    if attempt == RESTARTS or not may_be_chance:
                        raise SeatLost(error) from error
                except RpentBoxError as error:
                    raise self._sorted(error) from error
                else:
                    break
        self.is_playing = True

    @property
    def _has_sat(self) -> bool:
        return self._seat is not None and self._seat.connected is not None

    def _try_to_sit_down(self) -> None:
        crew = self._crew
        crew.go_on(starting=True)
        if self._seat is None:
            self._seat = self._new_seat()
            ready = self._seat.client.wait_ready(
                timeout_s=crew.config.start_timeout_s, on_phase=self._on_phase
            )
            crew.wait_for_worker()
            self._seat.connect(ready)
        else:
            crew.wait_for_worker()
            self._seat.replace(self._on_phase)
        if self._seat.ready is not None and self._seat.connected is not None:
            crew.agree(self._seat.ready, self._seat.connected, self._seat.program)

    def _new_seat(self) -> SimulatorSeat:
        crew, config = self._crew, self._crew.config
        earlier = crew.state.replacements(self._number)
        first_log = crew.setup.log_dir / f"simulator-{self._number}.log"
        program = crew.recipes.simulator_program(
            crew.box,
            crew.setup.run_dir,
            crew.worker_place,
            number=self._number,
            cpus=self._cpus,
            log=str(numbered_log(first_log, earlier)),
        )
        self._programs.start_simulator(program)
        return SimulatorSeat(
            self._programs,
            program,
            endpoint=crew.box.paths.sim_endpoint(self._number),
            connect=crew.connect,
            patience=Patience(
                start_s=config.start_timeout_s,
                episode_s=config.episode_timeout_s,
                stall_s=config.stall_timeout_s,
            ),
            run_dir=crew.setup.run_dir,
            first_log=first_log,
            earlier=earlier,
        )

    def _sorted(self, error: RpentBoxError) -> Exception:
        """Return what `error`, met while a simulator was to be had, means for others."""
        if self._crew.worker_is_gone(error):
            return WorkerGone(error)
        return error if ends_all(error) else SeatLost(error)

    # --- playing --------------------------------------------------------------------------------

    def _play(self, job: Job) -> bool:
        """Play `job`, and tell what came of it; give it back where it was not its turn to end.

        False: it ended in an error, and nobody knows in what state that leaves the simulator.
        """
        crew = self._crew
        began = time.monotonic()
        try:
            played = self._attempt(job)
        except SeatLost as lost:
            self._lost(job, began, lost.error)
            raise
        except RpentBoxError as error:
            gone = crew.worker_is_gone(error)
            if gone or ends_all(error):
                self._given_back(job, began)
                raise WorkerGone(error) from error if gone else error
            self._lost(job, began, error)
            return False
        except BaseException:
            self._given_back(job, began)
            raise
        else:
            crew.state.spent(spent_on(played, time.monotonic() - began))
            crew.state.count_finished()
            crew.tell(Finished(simulator=self.name, job=job, played=played))
            return True

    def _attempt(self, job: Job) -> EpisodePlayed:
        crew = self._crew
        episode_folder(crew.setup.run_dir, job.episode)
        seen = simulator_output_dir(crew.launcher, crew.setup.run_dir)
        play = crew.plan.play(job, f"{seen}/{episode_folder_name(job.episode)}")

        def on_progress(progress: Progress) -> None:
            # A lively simulator leaves no time between two messages to look.
            crew.go_on()
            crew.tell(Moved(simulator=self.name, job=job, progress=progress))

        def on_restart(_episode: int, restart: Restart) -> None:
            crew.tell(Restarted(simulator=self.name, job=job, restart=restart))

        played = play_again_if_lost(self, play, on_progress=on_progress, on_restart=on_restart)
        if key_of(played) != job.key:
            raise SimulatorError(
                f"the simulator was asked for {tuple(job.key)} and played {tuple(key_of(played))}",
                hint="Build its image or environment from the same release: rpent-box build",
            )
        return played

    def _lost(self, job: Job, began: float, error: RpentBoxError) -> None:
        self._crew.state.spent({"lost": time.monotonic() - began})
        self._crew.tell(
            Failed(
                simulator=self.name,
                job=job,
                code=error.code,
                message=error.message,
                hint=error.hint,
            )
        )

    def _given_back(self, job: Job, began: float) -> None:
        self._crew.state.spent({"lost": time.monotonic() - began})
        self._crew.source.give_back(job)

    # --- the watchdog's view of this seat -------------------------------------------------------

    @property
    def log(self) -> str:
        """What the present simulator writes, as a file name within the run's folder."""
        return self._sat.log

    def play(self, play: PlayEpisode, on_progress: Callable[[Progress], None]) -> EpisodePlayed:
        """Play one episode. Raises as `SimulatorSeat.play`."""
        return self._sat.play(play, on_progress)

    def replace(self, on_phase: Callable[[str], None]) -> None:
        """Put another simulator here. Raises `SimulatorHangs`, `ProgramDied`, and else what means
        that none can be had: `SeatLost`, or an error that ends all."""
        try:
            self._sat.replace(on_phase)
        except (SimulatorHangs, ProgramDied):
            raise
        except RpentBoxError as error:
            found = self._sorted(error)
            raise found from (None if found is error else error)

    def how_it_ended(self) -> str | None:
        """Say how the simulator ended; None when it runs, or when the worker has ended too."""
        return self._sat.how_it_ended()

    def last_lines(self) -> str:
        """Return the end of the simulator's log."""
        return self._sat.last_lines()

    @property
    def _sat(self) -> SimulatorSeat:
        if self._seat is None:
            raise SimulatorHangs(f"simulator {self.name} was never started")
        return self._seat

    def _on_phase(self, text: str) -> None:
        component = self._crew.state.component(f"simulator {self._number}")
        self._crew.tell(Phase(component=component, text=text))

    @contextmanager
    def _spending(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._crew.state.spent({what: time.monotonic() - began})


def ends_all(error: RpentBoxError) -> bool:
    """Say whether `error` would meet every other episode too, or makes them not comparable."""
    is_other = isinstance(error, IncompatibleWorker) or type(error) is ContractError
    return is_other or isinstance(error, (UsageError, OutputError))


def first_line(text: str) -> str:
    return text.partition("\n")[0]
