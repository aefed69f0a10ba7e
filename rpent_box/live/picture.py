# SPDX-License-Identifier: Apache-2.0
"""How an evaluation stands at one moment: what the page shows and what the metrics say."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from rpent_box.contracts.messages import Figures, Histogram

SeatState: TypeAlias = Literal["resetting", "waiting", "acting", "video", "replacing", "idle"]
"""`waiting`: for the model. `replacing`: it hung or died, or its worker did. `idle`: between
episodes."""
SEAT_STATES: tuple[SeatState, ...] = get_args(SeatState)

View: TypeAlias = Literal["unknown", "shown", "network", "elsewhere"]
"""Whether a simulator's frames can be looked at. `network`: they travel over the network, and are
in no memory of this machine. `elsewhere`: they are in another machine's."""

EvalPhase: TypeAlias = Literal["starting", "playing", "ended"]
EventKind: TypeAlias = Literal["restart", "error", "worker lost"]


class Component(Struct, frozen=True, kw_only=True):
    """Where a part of the evaluation stands."""

    name: str
    """`worker`, `simulator 3`, `node-1 worker`, `images`, …"""
    text: str
    for_s: float


class Seat(Struct, frozen=True, kw_only=True):
    """What one simulator does."""

    name: str
    """`3`, or `node-1/3`."""
    state: SeatState
    phase: str
    """As the simulator said it."""
    for_s: float
    """Since it said so."""
    suite: str = ""
    task: int = 0
    episode: int | None = None
    init_state: int = 0
    seed: int = 0
    steps: int = 0
    max_steps: int = 0
    played: int = 0
    """Episodes that it has played in this sitting."""
    successes: int = 0
    restarts: int = 0
    view: View = "unknown"
    cameras: tuple[str, ...] = ()
    """Roles that it can be looked through."""


class Task(Struct, frozen=True, kw_only=True):
    """How one task stands."""

    suite: str
    task: int
    name: str
    episodes: int
    """Asked for."""
    successes: int = 0
    failures: int = 0
    """Episodes that ended without success."""
    errors: int = 0
    """Episodes without a result, since something broke."""
    low: float = 0.0
    high: float = 1.0
    """The 95 % interval of its success rate, after Wilson."""
    steps: int = 0
    """Of all its episodes together."""
    acting_s: float = 0.0
    """The same, in seconds: neither building scenes nor writing videos."""


class Played(Struct, frozen=True, kw_only=True):
    """One of the latest episodes."""

    episode: int
    suite: str
    task: int
    init_state: int
    seed: int
    success: bool
    steps: int
    wall_s: float
    simulator: str
    restarts: int = 0


class Happened(Struct, frozen=True, kw_only=True):
    """Something out of the ordinary: a restart, an error, a worker's end."""

    at: str
    """UTC, ISO 8601."""
    kind: EventKind
    text: str


class Machine(Struct, frozen=True, kw_only=True):
    """A place that plays: one worker and its simulators."""

    name: str
    """`""` is this machine."""
    envs: int = 0
    envs_why: str = ""
    figures: Figures | None = None
    """Of its worker, since that was ready."""
    busy: float | None = None
    """Share of the last half minute that its worker was inside the model."""
    gathering: float | None = None
    idle: float | None = None
    lost: int = 0
    """How often its worker ended before its time."""


class Picture(Struct, frozen=True, kw_only=True):
    """All of it."""

    phase: EvalPhase = "starting"
    ended: str = ""
    """How it ended, in a word or two."""
    run: str = ""
    run_dir: str = ""
    platform: str = ""
    backend: str = ""
    checkpoint: str = ""
    launcher: str = ""
    elapsed_s: float = 0.0
    """Since this sitting began."""
    episodes: int = 0
    """Asked for, in all sittings."""
    done: int = 0
    """With a result, in all sittings."""
    successes: int = 0
    errors: int = 0
    low: float = 0.0
    high: float = 1.0
    earlier: int = 0
    """Of `done`: played by earlier sittings."""
    per_minute: float | None = None
    """Episodes over the last five minutes; None: too few of them."""
    per_minute_overall: float | None = None
    """Since the first simulator began to play."""
    eta_s: float | None = None
    curve: tuple[float, ...] = ()
    """Episodes per minute in each stretch of `curve_s` seconds."""
    curve_s: float = 0.0
    steps: int = 0
    predictions: int = 0
    stages_s: dict[str, float] = {}
    """Where the episodes' time went, all of them together."""
    episode_s: dict[str, Histogram] = {}
    """Suite → how long its episodes took."""
    restarts: dict[str, int] = {}
    """Why → how often."""
    error_codes: dict[str, int] = {}
    components: tuple[Component, ...] = ()
    seats: tuple[Seat, ...] = ()
    tasks: tuple[Task, ...] = ()
    machines: tuple[Machine, ...] = ()
    latest: tuple[Played, ...] = ()
    """Newest first."""
    happened: tuple[Happened, ...] = ()
    """Newest first."""
