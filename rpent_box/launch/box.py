# SPDX-License-Identifier: Apache-2.0
"""A box: one worker's room on this host, held by a lease for as long as its owner lives."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rpent_box.errors import LaunchError, RpentBoxError
from rpent_box.launch.cleaning import remove_files
from rpent_box.launch.containers import containers_of, end_containers
from rpent_box.launch.held import HeldDirectory
from rpent_box.launch.marked import MARK, end_processes, marked_processes
from rpent_box.launch.place import WorkerPlace, borrow
from rpent_box.launch.records import RECORDS, ProgramRecord, Records, write_records
from rpent_box.launch.roots import make_grants_root, make_runtime_dir
from rpent_box.launch.segments import remove_dead_segments
from rpent_box.launch.sweep import sweep
from rpent_box.transport.lease import Lease
from rpent_box.transport.paths import BoxPaths, default_runtime_dir

if TYPE_CHECKING:
    from rpent_box.launch.program import Running

STOP_GRACE_S = 10.0
"""How long a program may take to end by itself when its box closes."""
REAPER_WAIT_S = 5.0
ATTEMPTS = 20

_logger = logging.getLogger(__name__)
_open_boxes: weakref.WeakSet[Box] = weakref.WeakSet()


class Box:
    """Room, sockets, grants and results of one worker, and the programs started in it.

    A context manager: leaving it stops the programs, latest first, and removes everything. When its
    owner dies instead, the kernel lets go of the lease; the programs see that and end, and the
    reaper removes what they leave.
    """

    def __init__(self, paths: BoxPaths, held: list[HeldDirectory], lease: Lease) -> None:
        """For `create` only: `held` are room, grants and results, `lease` the room's."""
        self.paths = paths
        self._held = held
        self._lease = lease
        self._recording = threading.Lock()
        """Programs may be started from several threads."""
        self._running: list[Running] = []
        self._records = Records()
        self._reaper: subprocess.Popen[bytes] | None = None
        self._closed = False

    @classmethod
    def create(cls, runtime_dir: Path | str | None = None) -> Box:
        """Make a box in `runtime_dir` (default `/tmp/rpent-box-<uid>`) and start its reaper.

        Sweeps up what dead boxes left there. Raises `LaunchError` when it cannot be made,
        `TransportError` when `runtime_dir` is too long for a socket's path.
        """
        home = Path(runtime_dir).absolute() if runtime_dir else default_runtime_dir()
        # Its sockets' paths are the longest; a kernel takes no more than 107 bytes.
        BoxPaths.on_host("0" * 8, runtime_dir=home).sim_endpoint(999)
        make_runtime_dir(home)
        sweep(home)
        for _ in range(ATTEMPTS):
            # Every time: the last box to close takes it along.
            make_grants_root()
            box = cls._try_create(BoxPaths.on_host(secrets.token_hex(4), runtime_dir=home))
            if box is not None:
                return box
        raise LaunchError(
            f"no box could be made in {home}: something removes its directories at once",
            hint="Is another rpent-box gc running in a loop?",
        )

    @staticmethod
    def join(endpoint: str) -> WorkerPlace:
        """Return the place of a worker that runs in a box of its own, which is not ours to end.

        Its sockets and grants are used. Its lease stays with its owner: whoever joins has a box
        too, for its own lease and its simulators' sockets.
        """
        return borrow(endpoint)

    @property
    def id(self) -> str:
        """8 hex digits."""
        return self.paths.box

    @property
    def worker_place(self) -> WorkerPlace:
        """Where this box's own worker listens."""
        return WorkerPlace(endpoint=self.paths.worker_endpoint, paths=self.paths, borrowed=False)

    def record(self, running: Running) -> None:
        """Note a started program, here for `close` and on the disk for the reaper. From any thread.

        Launchers do this in `start`; noting a program twice changes nothing.
        """
        with self._recording:
            if any(known is running for known in self._running):
                return
            self._running.append(running)
            self._write(programs=(*self._records.programs, running.record()))

    def expect_containers(self) -> None:
        """Note that containers may be made: before the first one, so that none escapes a reaper."""
        with self._recording:
            if not self._records.engine:
                self._write(engine=True)

    def close(self, *, grace_s: float = STOP_GRACE_S) -> None:
        """Stop what is recorded, latest first, and remove everything. May be called twice.

        A program that cannot be ended leaves the room in place, for the reaper and the next sweep;
        its `LaunchError` is raised once everything else is done.
        """
        if self._closed:
            return
        self._closed = True
        try:
            failures = self._stop_programs(grace_s)
            if not failures:
                self._remove_files()
        finally:
            # Also when interrupted: the reaper then does the rest.
            self._let_go()
        if failures:
            raise failures[0]

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except RpentBoxError as failure:
            if error is None:
                raise
            # What went wrong first matters more; this must not hide it.
            _logger.warning("%s", failure)

    @classmethod
    def _try_create(cls, paths: BoxPaths) -> Box | None:
        """Return a box, or None when the id is taken or someone who cleans up was quicker."""
        with contextlib.ExitStack() as undo:
            try:
                box = cls._make(paths, undo)
            except (FileExistsError, FileNotFoundError):
                return None
            except OSError as error:
                raise LaunchError(
                    f"a box cannot be made: {error.strerror}: {error.filename}",
                    hint="Is there room in /tmp and /dev/shm? See: rpent-box doctor",
                ) from error
            if box is not None:
                undo.pop_all()
            return box

    @classmethod
    def _make(cls, paths: BoxPaths, undo: contextlib.ExitStack) -> Box | None:
        held = []
        for directory in (paths.room, paths.grants, paths.results):
            one = HeldDirectory.create(directory)
            if one is None:
                return None
            undo.callback(one.remove)
            held.append(one)
        paths.sockets.mkdir(mode=0o700)
        lease = Lease.hold(paths.lease)
        undo.callback(lease.close)
        box = cls(paths, held, lease)
        box._write()
        box._reaper = _start_reaper(paths)
        _open_boxes.add(box)
        return box

    def _write(
        self, *, engine: bool | None = None, programs: tuple[ProgramRecord, ...] | None = None
    ) -> None:
        self._records = Records(
            engine=self._records.engine if engine is None else engine,
            programs=self._records.programs if programs is None else programs,
        )
        try:
            write_records(self.paths.room / RECORDS, self._records)
        except OSError as error:
            raise LaunchError(
                f"the box's records cannot be written: {error.strerror}: {error.filename}",
                hint="Is the disk full? See: df -h /tmp",
            ) from error

    def _stop_programs(self, grace_s: float) -> list[RpentBoxError]:
        failures: list[RpentBoxError] = []
        for running in reversed(self._running):
            try:
                running.stop(grace_s=grace_s)
            except RpentBoxError as failure:
                failures.append(failure)
        # What programs have started and left, even outside of their sessions.
        end_processes(marked_processes(self.id), grace_s=0.0)
        if self._records.engine and not failures:
            # And a container whose making was interrupted before it could be recorded.
            try:
                end_containers(containers_of(self.id))
            except LaunchError as failure:
                failures.append(failure)
        return failures

    def _forget(self) -> None:
        """Drop the box without ending anything: for a forked child, which does not own it."""
        self._closed = True
        self._reaper = None
        for one in self._held:
            one.release()
        self._lease.close()

    def _remove_files(self) -> None:
        _, left = remove_files(self.paths)
        # Killed simulators of ours may have been clients of a box that lives on.
        remove_dead_segments()
        if left:
            _logger.warning("box %s: could not be removed: %s", self.id, ", ".join(left))
        elif self._reaper is not None:
            # Nothing is left for it. Waiting for it to see that itself would take longer.
            self._reaper.kill()

    def _let_go(self) -> None:
        for one in self._held:
            one.release()
        # Last: this is what the reaper waits for.
        self._lease.close()
        if self._reaper is not None:
            try:
                self._reaper.wait(timeout=REAPER_WAIT_S)
            except subprocess.TimeoutExpired:
                _logger.warning("the reaper of box %s is still at work", self.id)


def _start_reaper(paths: BoxPaths) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rpent_box.launch.reaper", paths.box]
    # Where the owner is itself a program of some box, its reaper must outlive that box's end.
    environment = {name: text for name, text in os.environ.items() if name != MARK}
    return subprocess.Popen(
        [*command, "--runtime-dir", str(paths.room.parent)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Python imports from here first: never from wherever the caller happens to be.
        cwd=paths.room.parent,
        env=environment,
        start_new_session=True,
        close_fds=True,
    )


def _forget_in_child() -> None:
    # A forked child shares the locks: it would keep a dead owner's box alive, and end a living one.
    for box in list(_open_boxes):
        box._forget()


os.register_at_fork(after_in_child=_forget_in_child)
