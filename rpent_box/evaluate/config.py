# SPDX-License-Identifier: Apache-2.0
"""What a run is asked to do, and who is told how it goes."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from rpent_box.contracts.control_messages import EpisodePlayed, Progress, Restart, Video
from rpent_box.worker.backend import Device

LauncherName: TypeAlias = Literal["auto", "docker", "process"]
THREADS = 1
"""Of each program, unless asked for otherwise: a worker and a simulator take turns, and
oversubscribed cores cost more than they give."""


class ProgramsConfig(Struct, frozen=True, kw_only=True):
    """Which worker and which simulators play, and how they are started: of a run and an evaluation.

    What is played is said by those that inherit it.
    """

    backend: str | None = None
    """As on the command line. None, only with `endpoint`: whatever serves there."""
    platform: str
    checkpoint: str | None = None
    endpoint: str | None = None
    """A worker that runs already; it is borrowed, never stopped."""
    launcher: LauncherName = "auto"
    python: str | None = None
    """Interpreter of an owned worker, for the process launcher; None: the backend's environment."""
    root: str | None = None
    """Working directory of an owned worker, for the process launcher."""
    platform_python: str | None = None
    """Interpreter of a simulator, for the process launcher; None: the platform's environment."""
    device: Device | None = None
    """Where an owned worker computes; None: on a GPU if its model needs one."""
    cuda_device: str | None = None
    """GPU of an owned worker, by index or UUID."""
    platform_cuda_device: str | None = None
    """GPU that a simulator may draw on, by index or UUID."""
    execute_steps: int | None = None
    """Rows of each chunk to execute; None: all that the model returns."""
    output_dir: str = "runs"
    backend_arguments: tuple[str, ...] = ()
    """Words for the worker's own options, e.g. `--predict-future`."""
    platform_arguments: tuple[str, ...] = ()
    """Words for the simulator's own options."""
    prediction_timeout_s: float | None = None
    """None: what the model's meta says, else 300 s."""
    start_timeout_s: float = 600.0
    """For the worker and a simulator to be ready."""
    episode_timeout_s: float = 3600.0
    """For one attempt at an episode. One that goes on and is not through by then ends the run."""
    stall_timeout_s: float = 600.0
    """Without a sign of progress for so long, a simulator counts as hung and is replaced; while it
    waits for the model, the prediction timeout comes on top. Nothing is said within a reset or a
    chunk, so it must be longer than the longest of them: a first reset compiles shaders and reads
    meshes for a minute or two on a busy machine, and fifty steps drawn in software take as long."""
    build: bool = False
    """Build images or environments that are missing instead of naming the command."""
    build_environ: dict[str, str] | None = None
    """What a build reads proxies and package indexes from; None: this process's environment."""
    threads: int | None = None
    """CPU threads of the worker; None: the launcher's choice."""
    runtime_dir: str | None = None
    """Where boxes have their rooms (`Box.create`); None: `/tmp/rpent-box-<uid>`."""
    cache_dir: str | None = None
    """Where the hashes of checkpoints' files are remembered; None: nowhere."""
    command: tuple[str, ...] = ()
    """The command line that asked for it, for `run.json`."""


class RunConfig(ProgramsConfig, frozen=True, kw_only=True):
    """One run: one worker, one simulator, some episodes of one task."""

    suite: str | None = None
    """None: the platform's default suite."""
    task: int | str = 0
    """Its index within the suite, or its name."""
    episodes: int = 1
    first_init_state: int | None = None
    """Episode `i` starts from init state `first_init_state + i`; each is played once. None: the
    suite's first."""
    seed: int = 7
    """Seeds the simulator before every reset, and the model's noise; only the noise where init
    states are the simulator's own scene seeds."""
    max_steps: int | None = None
    """None: the task's own limit, else the suite's."""
    video: Video | None = None
    """None: `all` for a single episode, else `none`."""
    show_predictions: bool = False
    """Draw into videos what the model expected to see, and its value."""


class StartWatcher(Protocol):
    """Is told how the start of programs goes."""

    def on_launcher(self, name: str, why: str) -> None:
        """How programs are started (`docker`, `process`), and why that way."""

    def on_phase(self, component: str, text: str) -> None:
        """`worker` or `simulator` entered a phase of its start, e.g. `loading`, `ready`.

        `images`: containers' images are being built. `checkpoint`: its files are being hashed.
        """


class RunWatcher(StartWatcher, Protocol):
    """Is told how a run goes, from the thread that called `run_episodes`."""

    def on_progress(self, episode: int, progress: Progress) -> None:
        """Episode `episode` of the run moved on."""

    def on_restart(self, episode: int, restart: Restart) -> None:
        """The simulator hung or died in episode `episode`; another one will begin it again."""

    def on_episode(self, played: EpisodePlayed) -> None:
        """An episode ended; its row is on the disk."""


class SilentWatcher:
    """A `RunWatcher` that ignores everything."""

    def on_launcher(self, name: str, why: str) -> None:
        """Ignore it."""

    def on_phase(self, component: str, text: str) -> None:
        """Ignore it."""

    def on_progress(self, episode: int, progress: Progress) -> None:
        """Ignore it."""

    def on_restart(self, episode: int, restart: Restart) -> None:
        """Ignore it."""

    def on_episode(self, played: EpisodePlayed) -> None:
        """Ignore it."""
