# SPDX-License-Identifier: Apache-2.0
"""`run.json`: what ran, where, with what, and everything needed to run it again."""

from __future__ import annotations

import os
import platform as machine
import subprocess
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control_messages import PlayEpisode, Video
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.errors import OutputError
from rpent_box.sim.gpus import GpuFacts, gpu_facts
from rpent_box.sim.platform import Scene
from rpent_box.sim.results import write_atomically
from rpent_box.sim.secrets import hide_secrets
from rpent_box.version import PROTOCOL_VERSION, __version__

MANIFEST_FILE = "run.json"

SEED_RULE = (
    "the simulator is seeded with `seed` before every reset, or with the init state alone where "
    "init states are the simulator's own scene seeds; the model's noise is seeded from "
    "(seed, suite, task, init state, chunk)"
)

GIT_TIMEOUT_S = 5.0

RunStatus: TypeAlias = Literal["running", "complete", "failed"]


class HostFacts(Struct, frozen=True, kw_only=True):
    """The machine and the code that wrote the results."""

    rpent_box: str
    protocol: int
    python: str
    system: str
    cpu: str
    cores: int
    """That this process may use."""
    git_revision: str | None
    """Of the checkout that this package is in; `-dirty` when it differs. None: installed."""
    gpus: tuple[GpuFacts, ...] = ()
    """NVIDIA's, of this machine, whether or not they were used; empty: its driver names none."""


class Plan(Struct, frozen=True, kw_only=True):
    """What was asked."""

    platform: str
    suite: str
    task: int
    task_name: str
    episodes: int
    first_init_state: int
    seed: int
    max_steps: int
    execute_steps: int | None
    video: Video
    show_predictions: bool = False
    backend: str | None = None
    checkpoint: str | None = None
    device: str | None = None
    """Where the worker computes, `cpu` or `cuda`; None: it is borrowed."""
    threads: int | None = None
    """CPU threads of the worker: sums of other numbers of them round otherwise; None: borrowed."""
    endpoint: str | None = None
    backend_arguments: tuple[str, ...] = ()
    platform_arguments: tuple[str, ...] = ()
    prediction_timeout_s: float | None = None

    def play(self, episode: int, output_dir: str) -> PlayEpisode:
        """Return what to ask for episode `episode`; `output_dir` is as the simulator sees it."""
        return PlayEpisode(
            suite=self.suite,
            task=self.task,
            init_state=self.first_init_state + episode,
            episode=episode,
            seed=self.seed,
            max_steps=self.max_steps,
            execute_steps=self.execute_steps,
            video=self.video,
            show_predictions=self.show_predictions,
            output_dir=output_dir,
        )

    def scenes(self) -> list[Scene]:
        """Return what fixes the scene of each episode, in order."""
        return [
            Scene(
                suite=self.suite,
                task=self.task,
                init_state=self.first_init_state + episode,
                seed=self.seed,
            )
            for episode in range(self.episodes)
        ]


class SimulatorFacts(Struct, frozen=True, kw_only=True):
    """What decided the physics and the pixels."""

    meta: PlatformMeta
    versions: dict[str, str]
    renderer: str


class WorkerFacts(Struct, frozen=True, kw_only=True):
    """What decided the actions."""

    meta: ModelMeta
    rpent_box: str


class RunManifest(Struct, frozen=True, kw_only=True):
    """The contents of `run.json`."""

    run: str
    """The run folder's name."""
    status: RunStatus
    """`running` in the file of a run that is not going on: it was killed."""
    started_at: str
    """UTC, ISO 8601."""
    finished_at: str | None = None
    error: str | None = None
    """Why it failed."""
    command: tuple[str, ...] = ()
    plan: Plan
    seed_rule: str = SEED_RULE
    launcher: str
    """`docker`, `process`, or `compose` for a simulator that plays by itself."""
    launcher_why: str = ""
    images: dict[str, str] = {}
    """`worker`, `simulator` → `NAME sha256:…`, image and id, when they ran in containers."""
    host: HostFacts
    simulator: SimulatorFacts | None = None
    """None until it is ready."""
    worker: WorkerFacts | None = None
    """None until it is connected."""
    checkpoint: CheckpointManifest | None = None
    """The files behind an owned worker. None: built-in weights, or a worker that ran already."""
    episodes_played: int = 0
    successes: int = 0
    restarts: int = 0
    """How often an episode was begun again since its simulator hung or died; rows say which."""


def write_manifest(run_dir: Path, manifest: RunManifest) -> None:
    """Write `run.json`, whole or not at all, and without secrets. Raises `OutputError`."""
    write_atomically(run_dir / MANIFEST_FILE, as_json(manifest))


def as_json(manifest: Struct) -> bytes:
    """Return `manifest` as a file for people: indented, and without secrets."""
    plain = hide_secrets(msgspec.to_builtins(manifest))
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def read_manifest(run_dir: Path) -> RunManifest:
    """Return the manifest of a run. Raises `OutputError`."""
    path = run_dir / MANIFEST_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise OutputError(f"{path} is not a run's manifest: {error}") from error


def host_facts() -> HostFacts:
    """Look at this machine."""
    return HostFacts(
        rpent_box=__version__,
        protocol=PROTOCOL_VERSION,
        python=machine.python_version(),
        system=machine.platform(),
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        git_revision=_git_revision(Path(__file__).resolve().parents[2]),
        gpus=gpu_facts(),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return machine.machine()


def _git_revision(checkout: Path) -> str | None:
    if not (checkout / ".git").exists():
        return None
    revision = _git(checkout, "rev-parse", "HEAD")
    if not revision:
        return None
    changed = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    return f"{revision}-dirty" if changed else revision


def _git(checkout: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
