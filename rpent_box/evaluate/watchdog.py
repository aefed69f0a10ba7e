# SPDX-License-Identifier: Apache-2.0
"""A simulator that hangs or dies in an episode is replaced, and the episode is begun again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from rpent_box.contracts.control_messages import (
    VIDEO_PHASE,
    EpisodePlayed,
    PlayEpisode,
    Progress,
    Restart,
)
from rpent_box.errors import PeerGone, ProgramDied, RpentBoxError, SimulatorHangs
from rpent_box.sim.results import utc_now

RESTARTS = 2
"""Of one episode. A simulator that ends three times in the same scene will do so a fourth time."""

OnProgress: TypeAlias = Callable[[Progress], None]
OnRestart: TypeAlias = Callable[[int, Restart], None]
"""Given the episode's number within the run."""


class Seat(Protocol):
    """Where a run's simulator sits. Another one can be put there."""

    @property
    def log(self) -> str:
        """What the present simulator writes, as a file name within the run's folder."""

    def play(self, play: PlayEpisode, on_progress: OnProgress) -> EpisodePlayed:
        """Play one episode. Raises `SimulatorHangs`, `ProgramDied`, and what the simulator says."""

    def replace(self, on_phase: Callable[[str], None]) -> None:
        """End the present simulator and put another one there, connected to the same worker.

        Raises `SimulatorHangs` when that one is not ready in time, and `ProgramDied`.
        """

    def how_it_ended(self) -> str | None:
        """Say how the simulator ended; None when it runs, or when the worker has ended too."""

    def last_lines(self) -> str:
        """Return the end of the simulator's log."""


def play_again_if_lost(
    seat: Seat, play: PlayEpisode, *, on_progress: OnProgress, on_restart: OnRestart
) -> EpisodePlayed:
    """Play one episode, at most twice again when its simulator hangs or dies.

    The result is what the last attempt says, with the earlier ones in `restarts`. Raises what
    ended the third attempt, and at once whatever is not the simulator's hanging or dying: what it
    says itself, the worker's end, a limit that was passed.
    """
    lost: list[Restart] = []
    while True:
        standing = _Standing("starting" if lost else "asked")
        try:
            if lost:
                seat.replace(standing.entered)
            played = seat.play(_next_attempt(play, lost), standing.passing_on(on_progress))
        except (SimulatorHangs, ProgramDied) as error:
            end = _end_of_attempt(seat, standing, error)
            if end is None:
                raise
            lost.append(end)
            if len(lost) > RESTARTS:
                raise _given_up(seat, play, lost, error) from error
            on_restart(play.episode, end)
        else:
            return _with_history(played, play, lost)


def in_words(restart: Restart) -> str:
    """Return how an attempt ended: `hung at: acting, step 12 (no sign of progress for 600 s)`."""
    unit = "frame" if restart.phase == VIDEO_PHASE else "step"
    return f"{restart.why} at: {restart.phase}, {unit} {restart.step} ({restart.reason})"


def _lost_at_video(lost: Sequence[Restart]) -> Restart | None:
    return next((one for one in lost if one.phase == VIDEO_PHASE), None)


def _next_attempt(play: PlayEpisode, lost: Sequence[Restart]) -> PlayEpisode:
    # A video that cannot be written costs no episode, so the next attempt does without.
    return play if _lost_at_video(lost) is None else replace(play, video="none")


def _with_history(
    played: EpisodePlayed, play: PlayEpisode, lost: Sequence[Restart]
) -> EpisodePlayed:
    spoilt = _lost_at_video(lost)
    if spoilt is not None and (play.video == "all" or not played.success):
        played = replace(played, video_error=f"the simulator {in_words(spoilt)}")
    return replace(played, restarts=tuple(lost))


class _Standing:
    """Where an attempt stands, and since when."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.step = 0
        self._since = time.monotonic()

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self._since

    def entered(self, phase: str) -> None:
        self.phase, self._since = phase, time.monotonic()

    def passing_on(self, on_progress: OnProgress) -> OnProgress:
        def told(progress: Progress) -> None:
            self.entered(progress.phase)
            self.step = progress.steps
            on_progress(progress)

        return told


def _end_of_attempt(seat: Seat, standing: _Standing, error: RpentBoxError) -> Restart | None:
    """Return how the attempt ended; None when the simulator is not what failed."""
    silent_s = standing.silent_s
    reason: str | None = f"no sign of progress for {silent_s:.0f} s"
    if isinstance(error, ProgramDied):
        reason = seat.how_it_ended()
    elif isinstance(error.__cause__, PeerGone):
        reason = "it hung up, but its program ran on"
    if reason is None:
        return None
    return Restart(
        why="died" if isinstance(error, ProgramDied) else "hung",
        reason=reason,
        phase=standing.phase,
        step=standing.step,
        silent_s=silent_s,
        at=utc_now().isoformat(timespec="seconds"),
        log=seat.log,
    )


def _given_up(
    seat: Seat, play: PlayEpisode, lost: Sequence[Restart], error: RpentBoxError
) -> RpentBoxError:
    """Return the last attempt's error with what became of each."""
    lines = [f"  {number}. {in_words(one)}: {one.log}" for number, one in enumerate(lost, start=1)]
    message = (
        f"episode {play.episode} (init state {play.init_state}) was begun {len(lost)} times, and "
        "each time its simulator was lost:\n" + "\n".join([*lines, error.message])
    )
    return type(error)(message, hint=error.hint, detail=error.detail or seat.last_lines())
