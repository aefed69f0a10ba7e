# SPDX-License-Identifier: Apache-2.0
"""What the host and a simulator server say to each other. No pixels pass here."""

from __future__ import annotations

from typing import Literal, TypeAlias

from rpent_box.contracts.messages import Fault, Message, Payload
from rpent_box.contracts.meta import ModelMeta, PlatformMeta

Video: TypeAlias = Literal["all", "failures", "none"]

MODEL_PHASES = frozenset({"resetting the model", "predicting"})
"""Phases of an episode in which the simulator waits for its worker, with a deadline of its own."""
VIDEO_PHASE = "writing video"
"""The last phase of an episode; its steps are frames."""


class SimHello(Message, tag="sim.hello", frozen=True, kw_only=True):
    """The first message from the host."""

    protocol: int


class SimReady(Message, tag="sim.ready", frozen=True, kw_only=True):
    """The simulator is imported; says what would be played on."""

    protocol: int
    platform: PlatformMeta
    versions: dict[str, str]
    """Package → version, e.g. `mujoco`; for results."""
    renderer: str
    """What draws: `osmesa`, `egl`, and the GL renderer's own name."""


class ConnectWorker(Message, tag="sim.connect", frozen=True, kw_only=True):
    """Connect to a worker, fetch its meta and refuse what does not fit."""

    endpoint: str
    box: str | None
    """Which box grants this client's ring; None over tcp: tensors travel as raw frames."""
    fitting: tuple[str, ...] = ()
    """Backends known to fit, for the refusal's text."""
    prediction_timeout_s: float | None = None
    """Explicit client timeout; None takes the model's, else 300 s."""


class WorkerConnected(Message, tag="sim.connected", frozen=True, kw_only=True):
    """The worker fits."""

    meta: ModelMeta
    worker_version: str


class PlayEpisode(Message, tag="sim.play", frozen=True, kw_only=True):
    """Play one episode to its end."""

    suite: str
    task: int
    init_state: int
    episode: int
    """Index within the run."""
    seed: int
    max_steps: int
    execute_steps: int | None = None
    """Rows of each chunk to execute; None: all that the model returns. Never more."""
    video: Video = "none"
    show_predictions: bool = False
    """Draw into the video what the model expected to see, and its value."""
    output_dir: str
    """Existing folder, as the simulator sees it: `actions.npy`, `futures.npz`, `episode.mp4`."""
    stall_timeout_s: float | None = None
    """How long the host waits for a sign of progress. Shortly before, the simulator writes into its
    log where its threads stand. None: it never does."""


class Progress(Message, tag="sim.progress", frozen=True, kw_only=True):
    """Sent at each new phase, so twice per chunk; also the answer to a hello before `SimReady`.

    From the main thread alone: whatever else of the simulator still answers proves nothing.
    """

    phase: str
    """`starting`, `importing the simulator`; then `resetting`, `resetting the model`, `predicting`
    and `acting` in turn, `writing video`."""
    steps: int = 0
    """Executed; while the video is written, its frames."""
    max_steps: int = 0
    success: bool = False
    seen: Payload | None = None
    """With `acting`: where in shared memory the frames are that the model has just seen. They stay
    until the next prediction, so that a reader checks the slot's sequence before and after. None:
    they travelled otherwise, or this is another phase."""


class Restart(Message, frozen=True, kw_only=True):
    """How one attempt at an episode ended, after which another simulator began it again."""

    why: Literal["hung", "died"]
    reason: str
    """In words, e.g. `no sign of progress for 600 s`, `killed by SIGSEGV`."""
    phase: str
    """Where it stood, as `Progress.phase`."""
    step: int
    """As `Progress.steps`."""
    silent_s: float
    """Since its last sign of progress."""
    at: str
    """UTC, ISO 8601."""
    log: str
    """File name within the run's folder: what that simulator said."""


class EpisodePlayed(Message, tag="sim.played", frozen=True, kw_only=True):
    """How an episode went."""

    suite: str
    task: int
    init_state: int
    episode: int
    seed: int
    instruction: str
    success: bool
    steps: int
    predictions: int
    execute_steps: int
    max_steps: int
    wall_s: float
    """Acting only: neither building the scene nor writing the video."""
    setup_s: float
    """Building or restoring the scene."""
    stages_s: dict[str, float]
    """`simulate`, `render`, `transport`, `queue`, `encode`, `infer`, `decode`, `other`."""
    actions_sha256: str
    """Of the executed actions, float32 [steps, action_dim] in C order."""
    first_frames_sha256: str
    """Of the first observation's images, roles in sorted order."""
    values: tuple[float | None, ...] = ()
    """The model's own estimate, one per prediction; empty when it gave none."""
    expected_db: float | None = None
    """Peak signal-to-noise ratio of the frames that the model expected, against what was then seen,
    reduced to their size; None: nothing to compare."""
    copied_db: float | None = None
    """The same for expecting that nothing changes."""
    futures: str | None = None
    """File name within `output_dir`: the frames that the model expected after each chunk."""
    video: str | None = None
    """File name within `output_dir`."""
    video_s: float = 0.0
    video_error: str = ""
    """Why a video that was asked for is not there; the episode counts all the same."""
    thumbnail: str | None = None
    """File name within `output_dir`: the last frame, small, of an episode with a video."""
    remarks: dict[str, int] = {}
    """What the platform says of its steps that is no error, e.g. a target that was out of reach,
    and of how many of them."""
    restarts: tuple[Restart, ...] = ()
    """Added by the host: the attempts before this one. All else is of this one alone."""


class CloseSimulator(Message, tag="sim.shutdown", frozen=True, kw_only=True):
    """End the simulator server."""


class Closed(Message, tag="sim.closed", frozen=True, kw_only=True):
    """The server ends now."""


ControlRequest: TypeAlias = SimHello | ConnectWorker | PlayEpisode | CloseSimulator
ControlReply: TypeAlias = SimReady | WorkerConnected | Progress | EpisodePlayed | Closed | Fault
