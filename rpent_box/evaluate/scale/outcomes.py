# SPDX-License-Identifier: Apache-2.0
"""Which episodes of a plan have their result, and which have ended in an error so far."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rpent_box.errors import OutputError
from rpent_box.evaluate.scale.manifest import FailedAttempt
from rpent_box.evaluate.scale.plan import EvalPlan, Job, JobKey, key_of
from rpent_box.sim.lines import read_lines
from rpent_box.sim.results import RESULTS_FILE, EpisodeRow, read_results

FAILED_FILE = "failed.jsonl"


class Outcomes:
    """What became of each job of a plan, by its key."""

    def __init__(self, plan: EvalPlan, run_dir: Path) -> None:
        """`run_dir` is for the text of errors."""
        self.jobs = plan.jobs()
        self._by_key = {job.key: job for job in self.jobs}
        self._rows: dict[JobKey, EpisodeRow] = {}
        self._tried: dict[JobKey, None] = {}
        self._run_dir = run_dir

    @classmethod
    def read(cls, plan: EvalPlan, run_dir: Path) -> Outcomes:
        """Return what earlier sittings have written into `run_dir`.

        Raises `OutputError` for two results of one episode, one that is not in the plan, and what
        cannot be read.
        """
        found = cls(plan, run_dir)
        # The files are made right after the manifest: a kill in between leaves none.
        rows = read_results(run_dir) if (run_dir / RESULTS_FILE).exists() else []
        for row in rows:
            if not found.is_new(key_of(row), row.episode):
                raise OutputError(
                    f"{run_dir} has two results of {_named(key_of(row))}: which one counts?",
                    hint="Two writers, or a change by hand: play it anew in another folder.",
                )
            found.add(row)
        found.note_failed(read_failed(run_dir))
        return found

    @property
    def rows(self) -> tuple[EpisodeRow, ...]:
        """The results, in the order in which they came."""
        return tuple(self._rows.values())

    @property
    def left(self) -> tuple[Job, ...]:
        """The episodes without a result, in order."""
        return tuple(job for job in self.jobs if job.key not in self._rows)

    @property
    def failed(self) -> tuple[JobKey, ...]:
        """Episodes without a result that ended in an error when they were last tried."""
        return tuple(key for key in self._tried if key not in self._rows)

    def is_new(self, key: JobKey, episode: int) -> bool:
        """Tell whether the job has no result yet; `episode` is its number as its result has it.

        Raises `OutputError` when there is no such job, or it has another number.
        """
        job = self._by_key.get(key)
        if job is None or job.episode != episode:
            where = "not in its plan" if job is None else f"episode {job.episode} there"
            raise OutputError(
                f"a result in {self._run_dir} is of {_named(key)}, as episode {episode}; that is "
                f"{where}",
                hint="A change by hand, or rows of another run: play it anew in another folder.",
            )
        return key not in self._rows

    def add(self, row: EpisodeRow) -> None:
        """Take a result that is new and on the disk."""
        self._rows[key_of(row)] = row

    def note_failed(self, attempts: Iterable[FailedAttempt]) -> None:
        """Take attempts that ended in an error and are on the disk."""
        for one in attempts:
            self._tried[JobKey(one.suite, one.task, one.init_state, one.seed)] = None


def read_failed(run_dir: Path) -> list[FailedAttempt]:
    """Return every attempt of every sitting that ended in an error. Raises `OutputError`."""
    path = run_dir / FAILED_FILE
    return read_lines(path, FailedAttempt, what="a failed attempt") if path.exists() else []


def _named(key: JobKey) -> str:
    return f"{key.suite} task {key.task}, init state {key.init_state}, seed {key.seed}"
