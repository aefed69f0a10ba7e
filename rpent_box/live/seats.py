# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one simulator."""

from __future__ import annotations

from msgspec.structs import replace

from rpent_box.contracts.control_messages import MODEL_PHASES, VIDEO_PHASE, Progress
from rpent_box.contracts.messages import Payload
from rpent_box.evaluate.scale.plan import Job
from rpent_box.live.picture import Seat, SeatState, View


class SeatNotes:
    """One simulator's place: another program may sit there after a restart."""

    def __init__(self) -> None:
        self.seen: Payload | None = None
        """Where the frames are that it has last shown to the model."""
        self.view: View = "unknown"
        self._state: SeatState = "idle"
        self._phase = ""
        self._since = 0.0
        self._job: Job | None = None
        self._progress = Progress(phase="")
        self._played = 0
        self._successes = 0
        self._restarts = 0

    def moved(self, job: Job, progress: Progress, now: float) -> None:
        """Its episode moved on."""
        self._enter(_state_of(progress.phase), progress.phase, now)
        self._job, self._progress = job, progress
        if progress.phase != "acting":
            return
        if progress.seen is None:
            self.view = "network"
        elif self.seen is None or _ring_of(progress.seen) != _ring_of(self.seen):
            # Whether this ring can be looked at is only known when somebody tries.
            self.view = "shown"
        self.seen = progress.seen

    def ended(self, now: float, *, success: bool | None) -> None:
        """Its episode ended; None: without a result."""
        self._enter("idle", "between episodes", now)
        self._job = None
        self._played += success is not None
        self._successes += success is True

    def lost(self, why: str, now: float, *, restarts: int = 0) -> None:
        """It, or its worker, is being replaced."""
        self._enter("replacing", why, now)
        self._restarts += restarts
        self.seen = None
        self.view = "unknown"

    def picture(self, name: str, now: float) -> Seat:
        job, progress = self._job, self._progress
        facts = Seat(
            name=name,
            state=self._state,
            phase=self._phase,
            for_s=max(0.0, now - self._since),
            played=self._played,
            successes=self._successes,
            restarts=self._restarts,
            view=self.view,
            cameras=roles_of(self.seen) if self.seen else (),
        )
        if job is None:
            return facts
        return _with_job(facts, job, progress)

    def _enter(self, state: SeatState, phase: str, now: float) -> None:
        if (state, phase) != (self._state, self._phase):
            self._state, self._phase, self._since = state, phase, now


def roles_of(payload: Payload) -> tuple[str, ...]:
    """Return the names of those tensors that are camera frames: uint8 [H, W, 3]."""
    return tuple(
        ref.name
        for ref in payload.tensors
        if ref.dtype == "uint8" and len(ref.shape) == 3 and ref.shape[2] == 3
    )


def _ring_of(payload: Payload) -> str | None:
    return payload.slot.segment if payload.slot else None


def _with_job(seat: Seat, job: Job, progress: Progress) -> Seat:
    return replace(
        seat,
        suite=job.suite,
        task=job.task,
        episode=job.episode,
        init_state=job.init_state,
        seed=job.seed,
        steps=progress.steps,
        max_steps=job.max_steps,
    )


def _state_of(phase: str) -> SeatState:
    if phase in MODEL_PHASES:
        return "waiting"
    if phase == VIDEO_PHASE:
        return "video"
    return "acting" if phase == "acting" else "resetting"
