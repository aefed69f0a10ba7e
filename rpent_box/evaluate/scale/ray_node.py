# SPDX-License-Identifier: Apache-2.0
"""What runs on a machine of a cluster: a box of its own, and the episodes that it is given.

An instance is a Ray actor, of which this file knows nothing: it is made with bytes, and answers
with bytes, from several threads.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from pathlib import Path

from msgspec.structs import replace

from rpent_box.errors import RpentBoxError
from rpent_box.evaluate.scale.events import Event, Failed, Finished
from rpent_box.evaluate.scale.ray_crew import play_assignment
from rpent_box.evaluate.scale.ray_files import take_files
from rpent_box.evaluate.scale.ray_jobs import GivenJobs
from rpent_box.evaluate.scale.ray_logs import LogReader
from rpent_box.evaluate.scale.ray_messages import (
    Answer,
    Assignment,
    Hello,
    News,
    Trouble,
    read_assignment,
    read_job,
    to_bytes,
    trouble_of,
)
from rpent_box.evaluate.scale.ray_outbox import Outbox
from rpent_box.launch.box import Box
from rpent_box.sim.results import episode_folder_name
from rpent_box.version import PROTOCOL_VERSION, __version__

NEWS_EVERY_S = 0.2
"""The driver is told at most this often where episodes stand."""
EPISODES = "episodes"
LOGS = "logs"
"""Folders in the room of a box: they are removed with it, however this process ends."""
_GPUS = "CUDA_VISIBLE_DEVICES"


class NodePlayer:
    """Plays what it is given until it is told to end. Its box starts when it is made."""

    def __init__(self, assignment: bytes) -> None:
        self._assignment: Assignment = read_assignment(assignment)
        self._life = secrets.token_hex(4)
        self._jobs = GivenJobs()
        self._outbox = Outbox()
        self._stop = threading.Event()
        self._logs: LogReader | None = None
        self._last_logs: dict[str, bytes] = {}
        self._episodes: Path | None = None
        self._trouble: Trouble | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="rpent-box crew")
        self._thread.start()

    def hello(self) -> bytes:
        """Return a `Hello`: where this is."""
        return to_bytes(
            Hello(
                life=self._life,
                host=socket.gethostname(),
                rpent_box=__version__,
                protocol=PROTOCOL_VERSION,
            )
        )

    def play(self, job: bytes) -> bytes:
        """Play a `Job` and return the `Answer` to it."""
        return to_bytes(Answer(life=self._life, outcome=self._jobs.play(read_job(job))))

    def news(self, life: str, number: int, wait_s: float) -> bytes:
        """Return `News` since `number` of `life`, after at most `wait_s` seconds.

        None, when that is another life: of a box that was lost since.
        """
        if life != self._life:
            return to_bytes(News(life=self._life, number=0))
        time.sleep(NEWS_EVERY_S)
        last, events = self._outbox.after(number, wait_s)
        return to_bytes(
            News(
                life=self._life,
                number=last,
                events=events,
                logs=self._new_logs(),
                trouble=self._trouble,
                ended=self._ended,
            )
        )

    def end(self, wait_s: float) -> bool:
        """End the box; return whether it is gone within `wait_s` seconds."""
        self._stop.set()
        self._jobs.close()
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._play_in_a_room()
        except RpentBoxError as error:
            self._trouble = trouble_of(error)
        except BaseException as error:
            # Else the driver would wait for ever; the traceback is in Ray's own log.
            self._trouble = Trouble(code="error", message=f"{type(error).__name__}: {error}")
            raise
        finally:
            self._ended = True
            self._jobs.close()
            self._outbox.wake()

    def _play_in_a_room(self) -> None:
        # A box without programs: what is played lies in its room, so that its reaper removes it
        # when this process is killed. The crew's own boxes come and go with their workers.
        with Box.create(self._assignment.config.runtime_dir) as box:
            self._episodes, logs = box.paths.room / EPISODES, box.paths.room / LOGS
            for folder in (self._episodes, logs):
                folder.mkdir(mode=0o700)
            self._logs = LogReader(logs)
            try:
                play_assignment(
                    self._assignment,
                    self._jobs,
                    self._tell,
                    self._stop,
                    run_dir=self._episodes,
                    log_dir=logs,
                    gpus=os.environ.get(_GPUS) if self._assignment.gpus else None,
                )
            finally:
                self._last_logs = self._logs.news()

    def _tell(self, event: Event) -> None:
        match event:
            case Finished():
                self._jobs.ended(replace(event, files=self._files_of(event)))
            case Failed():
                self._jobs.ended(event)
            case _:
                self._outbox.put(event)

    def _new_logs(self) -> dict[str, bytes]:
        if self._ended:
            last, self._last_logs = self._last_logs, {}
            return last
        return {} if self._logs is None else self._logs.news()

    def _files_of(self, event: Finished) -> dict[str, bytes]:
        if self._episodes is None:
            return {}
        return take_files(self._episodes / episode_folder_name(event.job.episode))
