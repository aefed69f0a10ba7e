# SPDX-License-Identifier: Apache-2.0
"""What tests of whole evaluations share: a config of the toy, and a watcher that remembers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import FailedAttempt
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.watcher import Begun, SilentEvalWatcher
from rpent_box.launch.records import read_records
from rpent_box.sim.results import EpisodeRow
from rpent_box_toy.running import boxes_in


def eval_config(folder: Path, **changes) -> EvalConfig:
    """Return an evaluation of the toy by the toy, all of it within `folder`."""
    settings = {
        "backend": "toy",
        "platform": "toy",
        "suites": ("toy_easy",),
        "episodes": 3,
        "envs": 2,
        "pin": False,
        "video": "none",
        "launcher": "process",
        "python": sys.executable,
        "platform_python": sys.executable,
        "output_dir": str(folder / "runs"),
        "runtime_dir": str(folder / "boxes"),
        "start_timeout_s": 120.0,
        **changes,
    }
    return EvalConfig(**settings)


class EvalRecorder(SilentEvalWatcher):
    """An `EvalWatcher` that remembers, and may act when something is finished or moves on."""

    def __init__(
        self,
        *,
        on_episode: Callable[[EpisodeRow], None] = lambda _row: None,
        on_progress: Callable[[str, Job, Progress], None] = lambda *_: None,
    ) -> None:
        super().__init__()
        self.begun: Begun | None = None
        self.phases: list[tuple[str, str]] = []
        self.envs: list[tuple[int, str]] = []
        self.rows: list[EpisodeRow] = []
        self.failed: list[FailedAttempt] = []
        self.restarts: list[tuple[str, Job, Restart]] = []
        self.workers_lost: list[str] = []
        self.figures: list[Figures] = []
        self.moves = 0
        self.left: list[str] = []
        self._on_episode = on_episode
        self._on_progress = on_progress

    def on_begin(self, begun: Begun) -> None:
        self.begun = begun

    def on_phase(self, component: str, text: str) -> None:
        self.phases.append((component, text))

    def on_envs(self, place: str, count: int, why: str) -> None:
        self.envs.append((count, why))

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        self.moves += 1
        self._on_progress(simulator, job, progress)

    def on_restart(self, simulator: str, job: Job, restart: Restart) -> None:
        self.restarts.append((simulator, job, restart))

    def on_left(self, simulator: str) -> None:
        self.left.append(simulator)

    def on_worker_lost(self, place: str, reason: str) -> None:
        self.workers_lost.append(reason)

    def on_episode(self, row: EpisodeRow) -> None:
        self.rows.append(row)
        self._on_episode(row)

    def on_failure(self, failed: FailedAttempt) -> None:
        self.failed.append(failed)

    def on_worker(self, place: str, figures: Figures) -> None:
        self.figures.append(figures)


def program_ids(folder: Path, role: str) -> list[int]:
    """Return the process ids of the programs of `role` in the one box under `folder`, as they were
    started; none while there is no box."""
    boxes = boxes_in(folder)
    if len(boxes) != 1:
        return []
    records = read_records(folder / "boxes" / boxes[0] / "programs.json")
    return [int(one.identifier) for one in records.programs if one.name.startswith(role)]
