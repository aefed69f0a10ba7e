# SPDX-License-Identifier: Apache-2.0
"""An evaluation as it is written down: its folder, its manifest, its rows. Nothing is ever lost.

A row in `results.jsonl` is what makes an episode finished. It is on the disk, with the files that
it names, before anyone is told; all else, `eval.json` too, can be written again from what is known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

from msgspec.structs import replace

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.errors import ContractError, OutputError, UsageError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.differences import Difference, differences, in_lines
from rpent_box.evaluate.scale.lock import WriterLock
from rpent_box.evaluate.scale.manifest import (
    EvalManifest,
    EvalStatus,
    FailedAttempt,
    Place,
    read_eval_manifest,
    write_eval_manifest,
)
from rpent_box.evaluate.scale.outcomes import FAILED_FILE, Outcomes
from rpent_box.evaluate.scale.plan import EvalPlan, Job, JobKey, key_of
from rpent_box.evaluate.scale.sitting import Sitting
from rpent_box.sim.lines import LineWriter, cannot_write, sync_files, sync_folder
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts
from rpent_box.sim.record import Started, in_words
from rpent_box.sim.results import (
    EpisodeRow,
    ResultsWriter,
    create_folder,
    episode_folder,
    episode_folder_name,
    now,
    remove_partials,
    row_of,
)
from rpent_box.sim.secrets import hide_in_text

WRITE_EVERY_S = 2.0
"""How old `eval.json` may be while episodes are played: rows say the same, and are never old."""
MOST_NAMED = 3
"""Suites in a folder's name."""


class EvalRecord:
    """Writes an evaluation's folder. A context manager: an error in it fails the evaluation.

    Used from one thread, by one process at a time: the folder is locked until it is closed.
    """

    def __init__(self, run_dir: Path, manifest: EvalManifest, held: ExitStack) -> None:
        """`create` and `resume` make one. `held` has the folder's lock, and gets the files."""
        self.run_dir = run_dir
        self._manifest = manifest
        self._outcomes = Outcomes.read(manifest.plan, run_dir)
        self._results = held.enter_context(ResultsWriter(run_dir))
        self._failures = held.enter_context(LineWriter(run_dir / FAILED_FILE))
        self._held = ExitStack()
        self._sitting: Sitting | None = None
        self._mixed: ContractError | None = None
        """Why nothing of this sitting may be added any more."""
        self._written = 0.0

    @classmethod
    def create(cls, plan: EvalPlan, config: EvalConfig) -> EvalRecord:
        """Make the folder of a new evaluation in `config.output_dir`. Raises `OutputError`."""
        run_dir = create_folder(config.output_dir, _name(plan))
        manifest = EvalManifest(
            run=run_dir.name,
            status="running",
            started_at=now(),
            plan=plan,
            config=_without_environment(config),
            episodes=sum(task.episodes for task in plan.tasks) * len(plan.seeds),
        )
        with ExitStack() as held:
            held.enter_context(WriterLock(run_dir))
            # First: a folder with rows and without a manifest is nobody's.
            write_eval_manifest(run_dir, manifest)
            return cls(run_dir, manifest, held)._keeping(held)

    @classmethod
    def resume(cls, run_dir: Path, plan: EvalPlan, config: EvalConfig) -> EvalRecord:
        """Go on with the evaluation in `run_dir`, of which `plan` is what is asked for now.

        Until `begin` nothing is changed but a torn last line: an evaluation with nothing left stays
        as it is. Raises `UsageError` when another plan was begun there, and `OutputError` when
        another process writes there, or the folder holds what does not belong to its plan.
        """
        folder = run_dir.expanduser().absolute()
        # Before there is a lock file in a folder that is no evaluation's.
        read_eval_manifest(folder)
        with ExitStack() as held:
            held.enter_context(WriterLock(folder))
            remove_partials(folder)
            manifest = read_eval_manifest(folder)
            require_plan(folder, manifest.plan, plan)
            manifest = replace(manifest, plan=plan, config=_without_environment(config))
            return cls(folder, manifest, held)._keeping(held)

    def _keeping(self, held: ExitStack) -> EvalRecord:
        """Take over what else would be closed now."""
        self._held = held.pop_all()
        return self

    def __enter__(self) -> EvalRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.finish()
            else:
                # What went wrong is worth more than that it could not be written down.
                with suppress(OutputError):
                    self._end("failed", in_words(error))
        finally:
            self.close()

    def close(self) -> None:
        """Close the files and unlock the folder. May be called twice."""
        self._held.close()

    @property
    def name(self) -> str:
        """The run folder's name, as it was made: it may have been renamed since."""
        return self._manifest.run

    @property
    def manifest(self) -> EvalManifest:
        """What `eval.json` would say now."""
        rows = self._outcomes.rows
        sessions = self._manifest.sessions
        if self._sitting is not None:
            sessions = (*sessions, self._sitting.present())
        return replace(
            self._manifest,
            sessions=sessions,
            episodes_played=len(rows),
            successes=sum(row.success for row in rows),
        )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every episode of the plan, in order."""
        return self._outcomes.jobs

    @property
    def left(self) -> tuple[Job, ...]:
        """The episodes without a result, in order."""
        return self._outcomes.left

    @property
    def rows(self) -> tuple[EpisodeRow, ...]:
        """The results of all sittings, in the order in which they came."""
        return self._outcomes.rows

    @property
    def failed(self) -> tuple[JobKey, ...]:
        """Episodes without a result that ended in an error when they were last tried."""
        return self._outcomes.failed

    @property
    def session(self) -> int:
        """The number of this sitting, or of the one that `begin` would begin."""
        return len(self._manifest.sessions)

    def begin(
        self,
        started: Started,
        *,
        executor: Literal["local", "ray"] = "local",
        began: float | None = None,
    ) -> None:
        """Begin a sitting, which `began` at that moment of `time.monotonic()`; None: now."""
        self._sitting = Sitting(
            self.session,
            started,
            executor=executor,
            began=time.monotonic() if began is None else began,
        )
        self._manifest = replace(self._manifest, status="running", error=None, finished_at=None)
        self.write()

    def note(
        self,
        *,
        simulator: SimulatorFacts | None = None,
        worker: WorkerFacts | None = None,
        images: Mapping[str, str] | None = None,
        checkpoint: CheckpointManifest | None = None,
    ) -> None:
        """Write down what decides results, or compare it with what was written down before.

        Images are known once a simulator is: give them before it, or with it. Raises
        `ContractError`, which names all that differs; then nothing of it is written, and no result
        is taken any more.
        """
        known = self._manifest
        found: list[Difference] = []
        if simulator is not None and known.simulator is not None:
            found += differences("simulator", known.simulator, simulator)
        if worker is not None and known.worker is not None:
            found += differences("worker", known.worker, worker)
        if checkpoint is not None and known.checkpoint is not None:
            found += differences("checkpoint", known.checkpoint, checkpoint)
        if images is not None and (known.images or known.simulator is not None):
            found += differences("images", known.images, dict(images))
        if found:
            self._mixed = _mixed(self.run_dir, found)
            raise self._mixed
        self._manifest = replace(
            known,
            simulator=known.simulator or simulator,
            worker=known.worker or worker,
            images=known.images if images is None else dict(images),
            checkpoint=known.checkpoint or checkpoint,
        )
        # Also when it was known before: the machine that says it may be new.
        self.write()

    def playing(self) -> None:
        """Note that the first episode of this sitting begins now. Later calls change nothing."""
        if self._sitting is not None:
            self._sitting.playing()

    def place(self, place: Place) -> None:
        """Note how one machine stands."""
        if self._sitting is not None:
            self._sitting.place(place)
            self.write_if_old()

    def count_restart(self) -> None:
        """Note that an episode is begun again, since its simulator hung or died."""
        self._manifest = replace(self._manifest, restarts=self._manifest.restarts + 1)
        self.write_if_old()

    def episode_folder(self, job: Job) -> Path:
        """Make and return the folder of one episode. Safe from any thread."""
        return episode_folder(self.run_dir, job.episode)

    def add(self, played: EpisodePlayed, *, simulator: str = "") -> EpisodeRow | None:
        """Put a finished episode on the disk; None when it has its result already.

        Raises `OutputError`: then the episode does not count, unless it was `eval.json` that could
        not be written; and the `ContractError` of a `note` before.
        """
        if self._mixed is not None:
            raise self._mixed
        if not self._outcomes.is_new(key_of(played), played.episode):
            return None
        self._sync(played.episode)
        row = row_of(played, run=self.name, session=self.session, simulator=simulator)
        self._results.append(row)
        self._outcomes.add(row)
        if self._sitting is not None:
            self._sitting.count()
        self.write_if_old()
        return row

    def fail(
        self, job: Job, *, code: str, message: str, hint: str = "", simulator: str = ""
    ) -> FailedAttempt:
        """Put on the disk that an episode ended in an error. A resume tries it again."""
        failed = FailedAttempt(
            episode=job.episode,
            suite=job.suite,
            task=job.task,
            init_state=job.init_state,
            seed=job.seed,
            code=code,
            message=hide_in_text(message),
            hint=hide_in_text(hint),
            session=self.session,
            simulator=simulator,
            at=now(),
        )
        self._failures.append(failed)
        self._outcomes.note_failed([failed])
        self.write_if_old()
        return failed

    def conclude(self) -> None:
        """Say that all is played, where who played the last episode was killed before it could."""
        known = self._manifest
        if known.status == "complete" or self.left:
            return
        ended = max((row.finished_at for row in self.rows), default=now())
        self._manifest = replace(known, status="complete", error=None, finished_at=ended)
        self.write()

    def finish(self) -> EvalStatus:
        """End this sitting: every episode was played, or ended in an error. Return which."""
        status: EvalStatus = "incomplete" if self.left else "complete"
        self._end(status, None)
        return status

    def write_if_old(self) -> None:
        """Write `eval.json` when that was not done for `WRITE_EVERY_S`. Raises `OutputError`."""
        if time.monotonic() - self._written >= WRITE_EVERY_S:
            self.write()

    def write(self) -> None:
        """Write `eval.json`. Raises `OutputError`."""
        write_eval_manifest(self.run_dir, self.manifest)
        self._written = time.monotonic()

    def _end(self, status: EvalStatus, error: str | None) -> None:
        if self._sitting is None or self._sitting.is_over:
            return
        self._sitting.end(error or status)
        self._manifest = replace(self._manifest, status=status, error=error, finished_at=now())
        self.write()

    def _sync(self, episode: int) -> None:
        """Have the disk hold what a row names before it holds the row."""
        folder = self.run_dir / episode_folder_name(episode)
        try:
            if folder.is_dir():
                sync_files(folder)
                sync_folder(self.run_dir)
        except OSError as error:
            raise cannot_write(folder, error) from error


def _name(plan: EvalPlan) -> str:
    suites = plan.suites
    what = "+".join(suites) if len(suites) <= MOST_NAMED else f"{len(suites)}-suites"
    return f"{plan.platform}-{what}-{plan.backend or 'endpoint'}-eval"


def _without_environment(config: EvalConfig) -> EvalConfig:
    return replace(config, build_environ=None)


def require_plan(run_dir: Path, old: EvalPlan, new: EvalPlan) -> None:
    """Raise `UsageError` where `new` is to be played in `run_dir`, which was begun with `old`."""
    # Where a borrowed worker listens decides nothing; what it is will be compared by itself.
    if old.endpoint is not None and new.endpoint is not None:
        old = replace(old, endpoint=new.endpoint)
    old = replace(old, prediction_timeout_s=new.prediction_timeout_s)
    found = differences("plan", old, new)
    if found:
        raise UsageError(
            f"another evaluation was begun in {run_dir}:\n{in_lines(found)}",
            hint=f"Resume it as it is: rpent-box eval --resume {run_dir}. Or begin another one.",
        )


def _mixed(run_dir: Path, found: list[Difference]) -> ContractError:
    return ContractError(
        f"the evaluation in {run_dir} was begun with something else:\n{in_lines(found)}",
        hint="Results of both would not be comparable. Bring back what it was begun with, or begin "
        "another evaluation.",
    )
