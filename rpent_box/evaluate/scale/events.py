# SPDX-License-Identifier: Apache-2.0
"""What executors tell the thread that writes: from simulators' threads, or from other machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control_messages import EpisodePlayed, Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.manifest import Place
from rpent_box.evaluate.scale.plan import Job
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts


class Phase(Struct, frozen=True, kw_only=True, tag=True):
    component: str
    text: str


class Envs(Struct, frozen=True, kw_only=True, tag=True):
    place: str
    count: int
    why: str


class Known(Struct, frozen=True, kw_only=True, tag=True):
    """A place says with what it plays: it must be what all others play with."""

    place: str
    simulator: SimulatorFacts
    worker: WorkerFacts
    images: dict[str, str] = {}
    checkpoint: CheckpointManifest | None = None
    """The files behind its owned worker, where there are any."""


class Moved(Struct, frozen=True, kw_only=True, tag=True):
    simulator: str
    job: Job
    progress: Progress


class Restarted(Struct, frozen=True, kw_only=True, tag=True):
    simulator: str
    job: Job
    restart: Restart


class Finished(Struct, frozen=True, kw_only=True, tag=True):
    """An episode was played to its end."""

    simulator: str
    job: Job
    played: EpisodePlayed
    files: Mapping[str, bytes] = {}
    """What it left, by file name, where it was played out of the results' reach."""


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """An episode ended in an error that another attempt would probably meet too."""

    simulator: str
    job: Job
    code: str
    message: str
    hint: str = ""


class Left(Struct, frozen=True, kw_only=True, tag=True):
    """A simulator plays no more: nothing is left for it, it was given up, or its box ends."""

    simulator: str


class WorkerLost(Struct, frozen=True, kw_only=True, tag=True):
    place: str
    reason: str


class WorkerTold(Struct, frozen=True, kw_only=True, tag=True):
    place: str
    figures: Figures


class PlaceTold(Struct, frozen=True, kw_only=True, tag=True):
    """How a place stands, now and then and at its end."""

    place: Place


Event: TypeAlias = (
    Phase
    | Envs
    | Known
    | Moved
    | Restarted
    | Finished
    | Failed
    | Left
    | WorkerLost
    | WorkerTold
    | PlaceTold
)
