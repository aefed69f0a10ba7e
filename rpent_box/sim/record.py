# SPDX-License-Identifier: Apache-2.0
"""A run as it is written down: its folder, its manifest, its rows."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from msgspec import Struct
from msgspec.structs import replace

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.errors import OutputError
from rpent_box.sim.manifest import (
    Plan,
    RunManifest,
    SimulatorFacts,
    WorkerFacts,
    host_facts,
    write_manifest,
)
from rpent_box.sim.results import (
    EpisodeRow,
    ResultsWriter,
    create_run_folder,
    episode_folder,
    now,
    row_of,
)

SIGNALLED = 128
"""Exit codes above this are a shell's way to name a signal."""


class Started(Struct, frozen=True, kw_only=True):
    """How a run was started, for its manifest."""

    launcher: str
    why: str = ""
    command: tuple[str, ...] = ()


class RunRecord:
    """Writes `run.json` and `results.jsonl`. A context manager: an error in it fails the run.

    Made at the start of a run, so that an unwritable folder is found before anything is started.
    """

    def __init__(self, output_dir: str, plan: Plan, started: Started) -> None:
        """Make the run's folder in `output_dir`. Raises `OutputError`."""
        self.run_dir = create_run_folder(
            output_dir,
            platform=plan.platform,
            suite=plan.suite,
            task=plan.task,
            backend=plan.backend or "endpoint",
        )
        self.rows: list[EpisodeRow] = []
        self._manifest = RunManifest(
            run=self.run_dir.name,
            status="running",
            started_at=now(),
            command=started.command,
            plan=plan,
            launcher=started.launcher,
            launcher_why=started.why,
            host=host_facts(),
        )
        self._write()
        self._writer = ResultsWriter(self.run_dir)

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        if error is not None:
            self._manifest = replace(
                self._manifest,
                status="failed",
                error=in_words(error),
                finished_at=now(),
            )
            # What went wrong is worth more than that it could not be written down.
            with suppress(OutputError):
                self._write()

    @property
    def name(self) -> str:
        """The run folder's name."""
        return self.run_dir.name

    def note(
        self,
        *,
        simulator: SimulatorFacts | None = None,
        worker: WorkerFacts | None = None,
        images: dict[str, str] | None = None,
        checkpoint: CheckpointManifest | None = None,
    ) -> None:
        """Add to the manifest what has become known."""
        known = self._manifest
        self._manifest = replace(
            known,
            simulator=simulator or known.simulator,
            worker=worker or known.worker,
            images=known.images if images is None else images,
            checkpoint=checkpoint or known.checkpoint,
        )
        self._write()

    def episode_folder(self, episode: int) -> Path:
        """Make and return the folder of one episode."""
        return episode_folder(self.run_dir, episode)

    def count_restart(self) -> None:
        """Note that an episode will be begun again."""
        self._manifest = replace(self._manifest, restarts=self._manifest.restarts + 1)
        self._write()

    def add(self, played: EpisodePlayed) -> EpisodeRow:
        """Put a finished episode on the disk."""
        row = row_of(played, run=self.name)
        self._writer.append(row)
        self.rows.append(row)
        self._manifest = replace(
            self._manifest,
            episodes_played=len(self.rows),
            successes=sum(row.success for row in self.rows),
        )
        self._write()
        return row

    def complete(self) -> None:
        """Mark the run as played to its end."""
        self._manifest = replace(self._manifest, status="complete", finished_at=now())
        self._write()

    def _write(self) -> None:
        write_manifest(self.run_dir, self._manifest)


def in_words(error: BaseException) -> str:
    """Return why a run failed, as its manifest says it."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT"
    if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > SIGNALLED:
        return f"stopped by {signal.Signals(error.code - SIGNALLED).name}"
    return f"{type(error).__name__}: {error}".rstrip(": ")
