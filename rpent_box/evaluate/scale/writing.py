# SPDX-License-Identifier: Apache-2.0
"""The one thread that writes: what executors tell goes to the disk, and then to whoever watches."""

from __future__ import annotations

import logging
import queue
import threading
import time
from pathlib import Path

from rpent_box.errors import OutputError, RpentBoxError, from_code
from rpent_box.evaluate.scale.checking import CheckedEvaluation
from rpent_box.evaluate.scale.events import (
    Envs,
    Event,
    Failed,
    Finished,
    Known,
    Left,
    Moved,
    Phase,
    PlaceTold,
    Restarted,
    WorkerLost,
    WorkerTold,
)
from rpent_box.evaluate.scale.executor import Executor
from rpent_box.evaluate.scale.preparing import require_suites
from rpent_box.evaluate.scale.record import EvalRecord
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.evaluate.scale.watcher import EvalWatcher
from rpent_box.sim.results import EpisodeRow, write_atomically

FAILURES_IN_A_ROW = 10
"""Without an episode that was finished in between. What went wrong then is not the episodes."""
FAILURES_OF_EACH = 2
"""Of as many simulators as play, at least: a worker out of breath costs each of them one."""
LISTEN_S = 0.5
END_S = 120.0
"""For an executor to end once it was told to."""

_logger = logging.getLogger(__name__)


class Writing:
    """Lets an executor play a schedule in another thread, and writes in this one."""

    def __init__(
        self,
        record: EvalRecord,
        checked: CheckedEvaluation,
        schedule: Schedule,
        watcher: EvalWatcher,
    ) -> None:
        self._record = record
        self._checked = checked
        self._schedule = schedule
        self._watcher = watcher
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        """None: the executor has ended."""
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._failures = 0
        self._envs: dict[str, int] = {}
        """Place → on how many simulators it plays."""
        self._is_another = False
        """A place plays with something else than the evaluation was begun with."""

    def play(self, executor: Executor) -> None:
        """Play the schedule to its end. Raises what keeps it from going on.

        Whatever is raised, also by a signal: the executor has ended then, and all that it finished
        before is on the disk.
        """
        thread = threading.Thread(target=self._run, args=(executor,), name="executor", daemon=True)
        thread.start()
        try:
            while (event := self._next(thread)) is not None:
                self._take(event)
        except OutputError:
            # What could not be written will not be written now.
            self._end(thread)
            raise
        except BaseException:
            try:
                self._end(thread)
            finally:
                # Also when it is interrupted once more, and the reaper has to end the rest.
                if not self._is_another:
                    self._keep_what_is_finished()
            raise
        thread.join(END_S)
        if self._error is not None:
            raise self._error

    def _run(self, executor: Executor) -> None:
        try:
            executor.play(self._schedule, self._events.put, self._stop)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for it
            self._error = error
        finally:
            self._events.put(None)

    def _next(self, thread: threading.Thread) -> Event | None:
        while True:
            try:
                return self._events.get(timeout=LISTEN_S)
            except queue.Empty:
                self._record.write_if_old()
                if not thread.is_alive():
                    return None

    def _end(self, thread: threading.Thread) -> None:
        self._stop.set()
        deadline = time.monotonic() + END_S
        while thread.is_alive() and time.monotonic() < deadline:
            thread.join(LISTEN_S)
        if thread.is_alive():
            _logger.warning("not all that was started has ended; later: rpent-box gc")

    def _keep_what_is_finished(self) -> None:
        while not self._events.empty():
            event = self._events.get_nowait()
            try:
                if isinstance(event, Known):
                    # Nobody has compared yet with what the episodes behind it were played.
                    self._note(event)
                elif isinstance(event, Finished):
                    self._keep(event)
            except RpentBoxError as error:
                # Something else went wrong before, which is to be heard.
                _logger.warning("an episode could not be kept: %s", error)
                if self._is_another:
                    return

    def _take(self, event: Event) -> None:  # noqa: C901 - one line for each kind
        watcher, record = self._watcher, self._record
        match event:
            case Moved():
                record.playing()
                watcher.on_progress(event.simulator, event.job, event.progress)
            case Finished():
                # Of a very short one that may be the first that is heard.
                record.playing()
                self._finished(event)
            case Failed():
                self._failed(event)
            case Restarted():
                record.count_restart()
                watcher.on_restart(event.simulator, event.job, event.restart)
            case Phase():
                watcher.on_phase(event.component, event.text)
            case Envs():
                self._envs[event.place] = event.count
                watcher.on_envs(event.place, event.count, event.why)
            case Known():
                self._note(event)
            case Left():
                watcher.on_left(event.simulator)
            case WorkerLost():
                watcher.on_worker_lost(event.place, event.reason)
            case WorkerTold():
                watcher.on_worker(event.place, event.figures)
            case PlaceTold():
                record.place(event.place)

    def _finished(self, event: Finished) -> None:
        row = self._keep(event)
        if row is not None:
            self._failures = 0
            self._watcher.on_episode(row)

    def _keep(self, event: Finished) -> EpisodeRow | None:
        """Put an episode on the disk; None when it was there already."""
        if not self._schedule.done(event.job):
            return None
        if event.files:
            self._write_files(event)
        return self._record.add(event.played, simulator=event.simulator)

    def _write_files(self, event: Finished) -> None:
        folder = self._record.episode_folder(event.job)
        for name, data in event.files.items():
            # The name comes from another machine.
            write_atomically(folder / Path(name).name, data)

    def _failed(self, event: Failed) -> None:
        if not self._schedule.done(event.job):
            return
        failed = self._record.fail(
            event.job,
            code=event.code,
            message=event.message,
            hint=event.hint,
            simulator=event.simulator,
        )
        self._watcher.on_failure(failed)
        self._failures += 1
        if self._failures >= max(FAILURES_IN_A_ROW, FAILURES_OF_EACH * sum(self._envs.values())):
            raise _hopeless(self._failures, event)

    def _note(self, known: Known) -> None:
        # Until it has been compared: what another worker or simulator finished must not be kept.
        self._is_another = True
        files = known.checkpoint or known.worker.meta.checkpoint_files
        if files is not None:
            require_suites(files, self._checked)
        self._record.note(
            simulator=known.simulator, worker=known.worker, images=known.images, checkpoint=files
        )
        self._is_another = False


def _hopeless(count: int, last: Failed) -> RpentBoxError:
    return from_code(
        last.code,
        f"{count} episodes in a row ended in an error, the last with: {last.message}",
        hint=last.hint,
    )
