# SPDX-License-Identifier: Apache-2.0
"""Who is told how an evaluation goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.config import StartWatcher
from rpent_box.evaluate.scale.manifest import EvalManifest, FailedAttempt
from rpent_box.evaluate.scale.plan import Job
from rpent_box.sim.results import EpisodeRow


class Begun(Struct, frozen=True, kw_only=True):
    """What an evaluation begins with."""

    run_dir: str
    manifest: EvalManifest
    jobs: tuple[Job, ...]
    """All of them, in order."""
    rows: tuple[EpisodeRow, ...]
    """Of earlier sittings."""


class EvalWatcher(StartWatcher, Protocol):
    """Is told how an evaluation goes, always from the thread that called `run_evaluation`.

    `component` is `worker`, `simulator 3`, `images`, `checkpoint`, with `node-1 ` before it for one
    on another machine; `simulator` is `3` or `node-1/3`.
    """

    def on_begin(self, begun: Begun) -> None:
        """The folder is there, and known what is left to play."""

    def on_envs(self, place: str, count: int, why: str) -> None:
        """`place`, `""` for this machine, plays on `count` simulators."""

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        """The episode on one simulator moved on."""

    def on_restart(self, simulator: str, job: Job, restart: Restart) -> None:
        """A simulator hung or died; another one begins the episode again."""

    def on_left(self, simulator: str) -> None:
        """A simulator plays no more. Another one of that name may come, with another box."""

    def on_worker_lost(self, place: str, reason: str) -> None:
        """A worker ended; another one is started, and what was being played is played again."""

    def on_episode(self, row: EpisodeRow) -> None:
        """An episode ended; its row is on the disk."""

    def on_failure(self, failed: FailedAttempt) -> None:
        """An episode ended in an error; that is on the disk too."""

    def on_worker(self, place: str, figures: Figures) -> None:
        """A worker's counters, every two seconds."""


class EvalWatchers:
    """Tells several watchers, in order."""

    def __init__(self, watchers: Sequence[EvalWatcher]) -> None:
        self._watchers = tuple(watchers)

    def on_launcher(self, name: str, why: str) -> None:
        for watcher in self._watchers:
            watcher.on_launcher(name, why)

    def on_phase(self, component: str, text: str) -> None:
        for watcher in self._watchers:
            watcher.on_phase(component, text)

    def on_begin(self, begun: Begun) -> None:
        for watcher in self._watchers:
            watcher.on_begin(begun)

    def on_envs(self, place: str, count: int, why: str) -> None:
        for watcher in self._watchers:
            watcher.on_envs(place, count, why)

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        for watcher in self._watchers:
            watcher.on_progress(simulator, job, progress)

    def on_restart(self, simulator: str, job: Job, restart: Restart) -> None:
        for watcher in self._watchers:
            watcher.on_restart(simulator, job, restart)

    def on_left(self, simulator: str) -> None:
        for watcher in self._watchers:
            watcher.on_left(simulator)

    def on_worker_lost(self, place: str, reason: str) -> None:
        for watcher in self._watchers:
            watcher.on_worker_lost(place, reason)

    def on_episode(self, row: EpisodeRow) -> None:
        for watcher in self._watchers:
            watcher.on_episode(row)

    def on_failure(self, failed: FailedAttempt) -> None:
        for watcher in self._watchers:
            watcher.on_failure(failed)

    def on_worker(self, place: str, figures: Figures) -> None:
        for watcher in self._watchers:
            watcher.on_worker(place, figures)


class SilentEvalWatcher(EvalWatchers):
    """An `EvalWatcher` that ignores everything."""

    def __init__(self) -> None:
        super().__init__(())
