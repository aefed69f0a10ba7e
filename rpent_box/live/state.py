# SPDX-License-Identifier: Apache-2.0
"""What is known of an evaluation while it goes: told by one thread, looked at by others.

Its size depends on how many tasks, simulators and machines there are, and not on how many episodes
are played or for how long.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures, Payload
from rpent_box.errors import from_code
from rpent_box.evaluate.scale.manifest import EvalManifest, FailedAttempt
from rpent_box.evaluate.scale.plan import Job, TaskKey
from rpent_box.evaluate.scale.remaining import Outlook
from rpent_box.evaluate.scale.watcher import Begun
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.live.machines import MachineNotes
from rpent_box.live.picture import Component, EvalPhase, EventKind, Happened, Picture, Played, View
from rpent_box.live.rates import Pace
from rpent_box.live.scores import Scores
from rpent_box.live.seats import SeatNotes
from rpent_box.sim.results import EpisodeRow, utc_now

LATEST = 40
HAPPENED = 60
TEXT = 400
"""Characters of an error or a phase that are kept; the run's folder has all of them."""
MOST_NAMES = 1024
"""Components, simulators and machines that are remembered; those first told of go."""

Onlooker: TypeAlias = Callable[[str, Payload], None]
"""Told by the telling thread where a simulator's frames are just now. Must be quick."""
Notes = TypeVar("Notes")


class LiveState:
    """An `EvalWatcher` that remembers; `picture` tells how everything stands. From any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._stopped: float | None = None
        self._ended = ""
        self._run_dir = ""
        self._manifest: EvalManifest | None = None
        self._launcher = ""
        self._earlier = 0
        self._scores = Scores()
        self._pace = Pace()
        self._outlook = Outlook()
        self._components: dict[str, tuple[str, float]] = {}
        self._seats: dict[str, SeatNotes] = {}
        self._machines: dict[str, MachineNotes] = {}
        self._restarts: Counter[str] = Counter({"hung": 0, "died": 0})
        self._error_codes: Counter[str] = Counter()
        self._latest: deque[Played] = deque(maxlen=LATEST)
        self._happened: deque[Happened] = deque(maxlen=HAPPENED)
        self._onlooker: Onlooker | None = None

    # --- what it is told ------------------------------------------------------------------------

    def on_launcher(self, name: str, why: str) -> None:
        with self._lock:
            self._launcher = f"{name} ({why})" if why else name

    def on_phase(self, component: str, text: str) -> None:
        with self._lock:
            self._components[component] = (text[:TEXT], self._clock())
            _bound(self._components)

    def on_begin(self, begun: Begun) -> None:
        with self._lock:
            self._run_dir, self._manifest = begun.run_dir, begun.manifest
            self._scores = Scores()
            self._scores.expect(begun.manifest.plan, begun.jobs)
            self._outlook = Outlook()
            self._outlook.expect(begun.jobs, begun.rows)
            for row in begun.rows:
                self._scores.add(row)
            self._earlier = len(begun.rows)

    def on_envs(self, place: str, count: int, why: str) -> None:
        with self._lock:
            machine = self._machine(place)
            machine.envs, machine.envs_why = count, why
            if not count:
                # It was lost, or plays no more: nobody will say how its simulators ended.
                for name in [name for name in self._seats if place_of(name) == place]:
                    del self._seats[name]
            self._outlook.plays_on(place, count)

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        with self._lock:
            now = self._clock()
            self._pace.begin(now)
            self._seat(simulator).moved(job, progress, now)
            self._outlook.moved(simulator, job, now)
            onlooker = self._onlooker
        if onlooker is not None and progress.seen is not None:
            onlooker(simulator, progress.seen)

    def on_restart(self, simulator: str, job: Job, restart: Restart) -> None:
        with self._lock:
            self._restarts[restart.why] += 1
            why = f"{restart.why} while {restart.phase}"
            self._seat(simulator).lost(why, self._clock(), restarts=1)
            self._outlook.lost(simulator)
            where = f"episode {job.episode}, {restart.phase}, step {restart.step}"
            self._note("restart", f"simulator {simulator} {restart.reason} ({where})")

    def on_left(self, simulator: str) -> None:
        with self._lock:
            self._seats.pop(simulator, None)
            self._outlook.left(simulator)

    def on_worker_lost(self, place: str, reason: str) -> None:
        with self._lock:
            self._machine(place).lost_worker()
            for name, seat in self._seats.items():
                if place_of(name) == place:
                    seat.lost("its worker ended", self._clock())
                    self._outlook.lost(name)
            self._note("worker lost", f"{place} worker: {reason}".lstrip())

    def on_episode(self, row: EpisodeRow) -> None:
        with self._lock:
            now = self._clock()
            self._scores.add(row)
            self._pace.add(now)
            self._outlook.played(row, now)
            self._seat(row.simulator).ended(now, success=row.success)
            self._latest.appendleft(_played(row))

    def on_failure(self, failed: FailedAttempt) -> None:
        with self._lock:
            # What a program says is free text; what becomes a label of a metric is not.
            self._error_codes[from_code(failed.code, "").code] += 1
            self._scores.add_error(TaskKey(failed.suite, failed.task))
            self._outlook.failed(failed)
            self._seat(failed.simulator).ended(self._clock(), success=None)
            self._note("error", f"episode {failed.episode}: {failed.message}")

    def on_worker(self, place: str, figures: Figures) -> None:
        with self._lock:
            self._machine(place).told(figures, self._clock())

    def end(self, how: str = "ended") -> None:
        """The evaluation is over: `complete`, `incomplete`, `failed`. The first word stands."""
        with self._lock:
            if self._stopped is None:
                self._stopped, self._ended = self._clock(), how

    # --- what it tells --------------------------------------------------------------------------

    def picture(self) -> Picture:
        """Return how everything stands now, or stood when it ended."""
        with self._lock:
            return self._picture(self._clock() if self._stopped is None else self._stopped)

    def seen(self, simulator: str) -> Payload | None:
        """Return where the frames are that `simulator` has last shown to the model."""
        with self._lock:
            seat = self._seats.get(simulator)
            return None if seat is None else seat.seen

    def look_on(self, onlooker: Onlooker | None) -> None:
        """Tell `onlooker` whenever there are new frames; None: nobody."""
        with self._lock:
            self._onlooker = onlooker

    def note_view(self, simulator: str, view: View) -> None:
        """Remember whether a simulator's frames can be looked at: somebody has tried."""
        with self._lock:
            if simulator in self._seats:
                self._seats[simulator].view = view

    # --- within the lock ------------------------------------------------------------------------

    def _picture(self, now: float) -> Picture:
        scores, pace, manifest = self._scores, self._pace, self._manifest
        low, high = wilson_interval(scores.successes, scores.done)
        return Picture(
            phase=self._phase(),
            ended=self._ended,
            run=manifest.run if manifest else "",
            run_dir=self._run_dir,
            platform=manifest.plan.platform if manifest else "",
            backend=(manifest.plan.backend or manifest.plan.endpoint or "") if manifest else "",
            checkpoint=(manifest.plan.checkpoint or "") if manifest else "",
            launcher=self._launcher,
            elapsed_s=now - self._began,
            episodes=scores.episodes,
            done=scores.done,
            successes=scores.successes,
            errors=scores.errors,
            low=low,
            high=high,
            earlier=self._earlier,
            per_minute=pace.recent.per_minute(pace.elapsed_s(now)),
            per_minute_overall=pace.overall(now),
            eta_s=None if self._stopped is not None else self._outlook.seconds_left(now),
            curve=pace.curve.per_minute(pace.elapsed_s(now)),
            curve_s=pace.curve.stretch_s,
            steps=scores.steps,
            predictions=scores.predictions,
            stages_s=dict(scores.stages_s),
            episode_s=scores.episode_s(),
            restarts=dict(self._restarts),
            error_codes=dict(self._error_codes),
            components=tuple(
                Component(name=name, text=text, for_s=max(0.0, now - at))
                for name, (text, at) in self._components.items()
            ),
            seats=tuple(
                self._seats[name].picture(name, now) for name in sorted(self._seats, key=_natural)
            ),
            tasks=scores.tasks(),
            machines=tuple(
                self._machines[name].picture(name) for name in sorted(self._machines, key=_natural)
            ),
            latest=tuple(self._latest),
            happened=tuple(self._happened),
        )

    def _phase(self) -> EvalPhase:
        if self._stopped is not None:
            return "ended"
        return "playing" if self._seats else "starting"

    def _seat(self, name: str) -> SeatNotes:
        seat = self._seats.setdefault(name, SeatNotes())
        _bound(self._seats)
        return seat

    def _machine(self, name: str) -> MachineNotes:
        machine = self._machines.setdefault(name, MachineNotes())
        _bound(self._machines)
        return machine

    def _note(self, kind: EventKind, text: str) -> None:
        at = utc_now().isoformat(timespec="seconds")
        self._happened.appendleft(Happened(at=at, kind=kind, text=text[:TEXT]))


def place_of(simulator: str) -> str:
    """Return which machine a simulator is on: `node-1` of `node-1/3`, `""` of `3`."""
    return simulator.rpartition("/")[0]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that puts simulator 10 behind simulator 9."""
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)
    )


def _bound(names: dict[str, Notes]) -> None:
    while len(names) > MOST_NAMES:
        del names[next(iter(names))]


def _played(row: EpisodeRow) -> Played:
    return Played(
        episode=row.episode,
        suite=row.suite,
        task=row.task,
        init_state=row.init_state,
        seed=row.seed,
        success=row.success,
        steps=row.steps,
        wall_s=row.wall_s,
        simulator=row.simulator,
        restarts=len(row.restarts),
    )
