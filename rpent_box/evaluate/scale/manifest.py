# SPDX-License-Identifier: Apache-2.0
"""`eval.json`: what an evaluation plays, with what, and how each of its sittings went.

<output>/<UTC time>-<platform>-<suites>-<backend>-eval/
  eval.json         this
  results.jsonl     one row per finished episode, as of a run
  failed.jsonl      one row per attempt that ended in an error; a resume tries those episodes again
  episode-000/      as of a run; its number is the job's
  worker.log, simulator-0.log, …; those of later sittings in session-1/, session-2/, …
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.messages import Figures
from rpent_box.errors import OutputError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.plan import EvalPlan
from rpent_box.sim.manifest import SEED_RULE, HostFacts, SimulatorFacts, WorkerFacts, as_json
from rpent_box.sim.results import write_atomically
from rpent_box.version import __version__

EVAL_FILE = "eval.json"
FORMAT = 1

EvalStatus: TypeAlias = Literal["running", "complete", "incomplete", "failed"]
"""`incomplete`: played to its end, but some episodes ended in an error. `running` in the file of an
evaluation that is not going on: it was killed. All but `complete` can be resumed."""


class Place(Struct, frozen=True, kw_only=True):
    """A machine that played, with one box: one worker and its simulators."""

    name: str
    """`""` for this one, `node-0`, … in a cluster."""
    host: HostFacts
    envs: int
    """Simulators at the end."""
    envs_why: str = ""
    worker: Figures | None = None
    """The worker's own counters, when last asked; sums, where it was started more than once."""
    simulators_s: dict[str, float] = {}
    """What its simulators did, in seconds of all of them together: `starting`, `resetting`,
    `simulate`, `render`, `predicting`, `video`, `idle`, …"""
    worker_starts: int = 1


class Session(Struct, frozen=True, kw_only=True):
    """One sitting of an evaluation: from its start, or a resume, to its end."""

    number: int
    started_at: str
    """UTC, ISO 8601."""
    ended_at: str | None = None
    """None: it goes on, or was killed."""
    ended: str = ""
    """`complete`, or why it ended before."""
    command: tuple[str, ...] = ()
    executor: Literal["local", "ray"] = "local"
    launcher: str = ""
    launcher_why: str = ""
    start_s: float = 0.0
    """From the call to the first episode."""
    wall_s: float = 0.0
    """From the call to its end, as last noted."""
    episodes: int = 0
    """That it finished."""
    places: tuple[Place, ...] = ()


class EvalManifest(Struct, frozen=True, kw_only=True):
    """The contents of `eval.json`."""

    format: int = FORMAT
    run: str
    """The folder's name."""
    status: EvalStatus
    started_at: str
    """UTC, ISO 8601."""
    finished_at: str | None = None
    error: str | None = None
    plan: EvalPlan
    config: EvalConfig
    """As asked, without the environment of builds: what a resume begins with."""
    seed_rule: str = SEED_RULE
    images: dict[str, str] = {}
    """`worker`, `simulator` → `NAME sha256:…`; empty for processes. Like the three below, it
    decides results: a resume refuses to go on with another one."""
    simulator: SimulatorFacts | None = None
    worker: WorkerFacts | None = None
    checkpoint: CheckpointManifest | None = None
    episodes: int
    """Asked for."""
    episodes_played: int = 0
    successes: int = 0
    restarts: int = 0
    """Of simulators; rows say which."""
    sessions: tuple[Session, ...] = ()


class FailedAttempt(Struct, frozen=True, kw_only=True):
    """One line of `failed.jsonl`: an episode that ended in an error, and not in a result."""

    episode: int
    suite: str
    task: int
    init_state: int
    seed: int
    code: str
    """Of the error: `errors.from_code`."""
    message: str
    hint: str = ""
    session: int = 0
    simulator: str = ""
    at: str
    """UTC, ISO 8601."""


def write_eval_manifest(run_dir: Path, manifest: EvalManifest) -> None:
    """Write `eval.json`, whole or not at all, and without secrets. Raises `OutputError`."""
    write_atomically(run_dir / EVAL_FILE, as_json(manifest))


class _Format(Struct):
    """What every version of `eval.json` says about itself."""

    format: int = FORMAT


def read_eval_manifest(run_dir: Path) -> EvalManifest:
    """Return the manifest of an evaluation. Raises `OutputError`, also for another format."""
    path = run_dir / EVAL_FILE
    try:
        data = path.read_bytes()
        # First: in another format, anything else may mean something else.
        found = msgspec.json.decode(data, type=_Format).format
        if found != FORMAT:
            raise OutputError(
                f"{path} has format {found}; rpent-box {__version__} reads format {FORMAT}",
                hint="Read it with the version of rpent-box that wrote it.",
            )
        return msgspec.json.decode(data, type=EvalManifest)
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} is not an evaluation's manifest: {error}") from error
