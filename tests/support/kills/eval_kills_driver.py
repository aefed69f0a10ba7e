# SPDX-License-Identifier: Apache-2.0
"""Plays an evaluation in a process that may be killed: `FOLDER`, which holds `config.json`.

Resumes the one under `FOLDER/runs`, where there is one. Exit code 0: it is complete; 1: it is not.
It plays on the Ray cluster that a file `FOLDER/ray` names, where there is one. A file `FOLDER/arm`
makes it kill itself in its next write. What must never happen goes into `FOLDER/violations`.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.contracts.control_messages import Progress
from rpent_box.errors import RpentBoxError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import resume_evaluation, run_evaluation
from rpent_box.evaluate.scale.manifest import EVAL_FILE
from rpent_box.evaluate.scale.outcomes import Outcomes
from rpent_box.evaluate.scale.plan import Job, JobKey, key_of
from rpent_box.evaluate.scale.watcher import Begun, SilentEvalWatcher
from rpent_box.launch.signals import unwinding_on_signals
from rpent_box.sim import lines
from rpent_box.sim.results import EpisodeRow

ARM, CONFIG, RAY, VIOLATIONS = "arm", "config.json", "ray", "violations"

MOMENTS = ("tear", "after row", "before manifest")
"""In a row's line; between a row and the manifest; between the manifest's file and its name."""


class Arm(Struct, frozen=True):
    """When to die."""

    moment: str
    share: float
    """Of a line that is written before."""


def run_dir_of(folder: Path) -> Path | None:
    """Return the evaluation that was begun under `folder`; none before its first manifest."""
    found = [path.parent for path in (folder / "runs").glob(f"*/{EVAL_FILE}")]
    if len(found) > 1:
        raise AssertionError(f"two evaluations were begun: {found}")
    return found[0] if found else None


class Dying:
    """Kills this process in the middle of a write, once it is told to."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ARM

    def install(self) -> None:
        write_all, add, rename = lines.write_all, Outcomes.add, Path.replace

        def write_or_die(descriptor: int, data: bytes) -> None:
            arm = self._taken("tear")
            if arm is not None:
                write_all(descriptor, data[: max(1, int(arm.share * len(data)))])
                _die()
            write_all(descriptor, data)

        def add_or_die(outcomes: Outcomes, row: EpisodeRow) -> None:
            add(outcomes, row)
            if self._taken("after row"):
                _die()

        def rename_or_die(path: Path, target: Path) -> Path:
            if target.name == EVAL_FILE and self._taken("before manifest"):
                _die()
            return rename(path, target)

        lines.write_all = write_or_die
        Outcomes.add = add_or_die
        Path.replace = rename_or_die

    def _taken(self, moment: str) -> Arm | None:
        try:
            arm = msgspec.json.decode(self._path.read_bytes(), type=Arm)
        except (OSError, msgspec.DecodeError):
            return None
        if arm.moment != moment:
            return None
        self._path.unlink()
        return arm


class Witness(SilentEvalWatcher):
    """Writes down when an episode is played that has its result."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / VIOLATIONS
        self._finished: set[JobKey] = set()

    def on_begin(self, begun: Begun) -> None:
        self._finished = {key_of(row) for row in begun.rows}

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        if job.key in self._finished:
            self._say(f"{simulator} plays {job.key} again: {progress.phase}")

    def on_episode(self, row: EpisodeRow) -> None:
        if key_of(row) in self._finished:
            self._say(f"{row.simulator} has another result of {key_of(row)}")
        self._finished.add(key_of(row))

    def on_phase(self, component: str, text: str) -> None:
        sys.stdout.write(f"{component}: {text}\n")

    def on_worker_lost(self, place: str, reason: str) -> None:
        sys.stdout.write(f"worker lost: {reason}\n")

    def _say(self, text: str) -> None:
        with self._path.open("a") as file:
            file.write(text + "\n")


def main(folder: Path) -> int:
    """Play until the end, or until killed. Return the exit code."""
    Dying(folder).install()
    config = msgspec.json.decode((folder / CONFIG).read_bytes(), type=EvalConfig)
    if (folder / RAY).exists():
        config = replace(config, envs=1, ray=(folder / RAY).read_text())
    run_dir, witness = run_dir_of(folder), Witness(folder)
    try:
        if run_dir is None:
            summary = run_evaluation(config, witness)
        else:
            summary = resume_evaluation(run_dir, config, witness)
    except RpentBoxError:
        traceback.print_exc()
        return 1
    return 0 if summary.status == "complete" else 1


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with unwinding_on_signals():
        sys.exit(main(Path(sys.argv[1])))
