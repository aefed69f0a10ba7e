# SPDX-License-Identifier: Apache-2.0
"""Playing on this machine, with box after box as workers come to an end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

from rpent_box.evaluate.scale.crew import Crew
from rpent_box.evaluate.scale.events import WorkerLost
from rpent_box.evaluate.scale.executor import Source, Tell
from rpent_box.evaluate.scale.place import PlaceSetup, PlaceState
from rpent_box.evaluate.scale.player import WorkerGone
from rpent_box.evaluate.scale.preparing import Prepared
from rpent_box.evaluate.scale.schedule import Schedule

WORKER_LOSSES = 3
"""In a row, without an episode that was finished in between. The next one would end so too."""


def play_here(setup: PlaceSetup, source: Source, tell: Tell, stop: threading.Event) -> None:
    """Play on this machine until `source` has nothing more, or `stop` is set. Then nothing runs.

    A worker that dies is replaced, with its box and its simulators. Raises the `RpentBoxError` that
    keeps this machine from playing on: above all when the first worker or every simulator cannot
    be started, when workers die again and again, and when a borrowed one has ended. A first worker
    that something kills before it is ready is started once more.
    """
    state = PlaceState(setup, tell)
    losses = 0
    try:
        while not stop.is_set() and source.wait(0):
            finished = state.finished
            try:
                Crew(setup, state, source, tell, stop).play()
            except WorkerGone as gone:
                losses = 1 if state.finished > finished else losses + 1
                _require_another(setup, state, losses, gone)
                tell(WorkerLost(place=setup.name, reason=gone.error.message))
    finally:
        state.tell()


def _require_another(setup: PlaceSetup, state: PlaceState, losses: int, gone: WorkerGone) -> None:
    """Raise how it ended where another worker cannot be had, or would not help."""
    error = gone.error
    is_borrowed = setup.prepared.config.endpoint is not None
    # What a worker itself ends with while it starts, the next one would end with too.
    may_be_chance = state.worker_was_ready or (gone.was_killed and losses == 1)
    if is_borrowed or not may_be_chance:
        raise error
    if losses >= WORKER_LOSSES:
        message = f"{losses} workers in a row ended before an episode did; of the last: "
        raise type(error)(message + error.message, hint=error.hint, detail=error.detail)


class LocalExecutor:
    """Plays a schedule on this machine."""

    name: Literal["local"] = "local"

    def __init__(self, prepared: Prepared, *, run_dir: Path, log_dir: Path) -> None:
        self._prepared = prepared
        self._run_dir = run_dir
        self._log_dir = log_dir

    def play(self, schedule: Schedule, tell: Tell, stop: threading.Event) -> None:
        """Play until every job is done, or `stop` is set. As `Executor.play`."""
        setup = PlaceSetup(
            prepared=self._prepared,
            run_dir=self._run_dir,
            log_dir=self._log_dir,
            jobs=len(schedule.unfinished),
        )
        play_here(setup, schedule, tell, stop)
