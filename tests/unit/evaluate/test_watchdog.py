# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from msgspec.structs import replace

from rpent_box.contracts.control_messages import EpisodePlayed, PlayEpisode, Progress
from rpent_box.errors import DeadlineExceeded, LaunchError, PeerGone, ProgramDied, SimulatorHangs
from rpent_box.evaluate.watchdog import in_words, play_again_if_lost

PLAY = PlayEpisode(
    suite="s", task=0, init_state=5, episode=2, seed=7, max_steps=40, output_dir="/nowhere"
)
PLAYED = EpisodePlayed(
    suite="s",
    task=0,
    init_state=5,
    episode=2,
    seed=7,
    instruction="go",
    success=True,
    steps=12,
    predictions=3,
    execute_steps=4,
    max_steps=40,
    wall_s=1.0,
    setup_s=0.1,
    stages_s={},
    actions_sha256="a",
    first_frames_sha256="f",
)
HANGS = SimulatorHangs("the simulator hangs", hint="Read its log, or: --stall-timeout")
DIED = ProgramDied("simulator toy (process 9) has ended: killed by SIGSEGV", detail="last words")


class FakeSeat:
    """A seat whose simulators end as they are told, one after the other."""

    def __init__(self, *ends, on_replace=(), ended="killed by SIGSEGV", last_phase="acting"):
        self.ends = list(ends)
        self.last_phase = last_phase
        self.on_replace = list(on_replace)
        self.ended = ended
        self.replaced = 0
        self.plays = []

    @property
    def log(self):
        return f"log {self.replaced}"

    def play(self, play, on_progress):
        self.plays.append(play)
        on_progress(Progress(phase="resetting", max_steps=40))
        on_progress(Progress(phase=self.last_phase, steps=8, max_steps=40))
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def replace(self, on_phase):
        self.replaced += 1
        on_phase("importing the simulator")
        end = self.on_replace.pop(0) if self.on_replace else None
        if end is not None:
            raise end

    def how_it_ended(self):
        return self.ended

    def last_lines(self):
        return "in a loop"


def play(seat, told=None, restarts=None):
    told = [] if told is None else told
    restarts = [] if restarts is None else restarts
    return play_again_if_lost(
        seat, PLAY, on_progress=told.append, on_restart=lambda *words: restarts.append(words)
    )


def test_an_episode_that_goes_well_is_left_as_it_is():
    seat, told = FakeSeat(PLAYED), []
    assert play(seat, told) == PLAYED
    assert [progress.steps for progress in told] == [0, 8]
    assert seat.replaced == 0


@pytest.mark.parametrize(
    ("error", "why", "reason"),
    [(HANGS, "hung", "no sign of progress for 0 s"), (DIED, "died", "killed by SIGSEGV")],
)
def test_the_same_episode_is_begun_again_and_the_result_says_so(error, why, reason):
    seat, restarts = FakeSeat(error, PLAYED), []
    played = play(seat, restarts=restarts)
    assert seat.plays == [PLAY, PLAY]
    (restart,) = played.restarts
    assert restarts == [(2, restart)]
    assert (restart.why, restart.reason) == (why, reason)
    assert (restart.phase, restart.step, restart.log) == ("acting", 8, "log 0")
    assert restart.silent_s >= 0
    assert restart.at.endswith("+00:00")
    assert in_words(restart) == f"{why} at: acting, step 8 ({reason})"
    assert played.success
    assert played.actions_sha256 == PLAYED.actions_sha256


def test_twice_is_the_most_and_the_third_end_is_told_with_all_of_them():
    seat, restarts = FakeSeat(HANGS, DIED, HANGS, PLAYED), []
    with pytest.raises(SimulatorHangs, match=r"episode 2 \(init state 5\) was begun 3 times") as it:
        play(seat, restarts=restarts)
    assert seat.replaced == 2
    assert len(restarts) == 2
    lines = it.value.message.splitlines()
    assert lines[1:-1] == [
        "  1. hung at: acting, step 8 (no sign of progress for 0 s): log 0",
        "  2. died at: acting, step 8 (killed by SIGSEGV): log 1",
        "  3. hung at: acting, step 8 (no sign of progress for 0 s): log 2",
    ]
    assert lines[-1] == HANGS.message
    assert it.value.detail == "in a loop"
    assert it.value.hint == HANGS.hint


def test_what_to_do_is_said_of_the_last_end_and_not_of_another():
    slow = SimulatorHangs("it was not ready in time", hint="Allow more: --start-timeout")
    with pytest.raises(SimulatorHangs) as caught:
        play(FakeSeat(HANGS, on_replace=[slow, slow]))
    assert caught.value.message.splitlines()[-1] == slow.message
    assert caught.value.hint == slow.hint


def test_one_that_hangs_up_was_not_silent():
    gone = SimulatorHangs("the simulator stopped talking, but its program runs")
    gone.__cause__ = PeerGone("the connection is closed")
    (restart,) = play(FakeSeat(gone, PLAYED)).restarts
    assert (restart.why, restart.reason) == ("hung", "it hung up, but its program ran on")


def test_a_third_death_keeps_its_evidence():
    with pytest.raises(ProgramDied, match="was begun 3 times") as caught:
        play(FakeSeat(DIED, DIED, DIED))
    assert caught.value.message.endswith(DIED.message)
    assert caught.value.detail == "last words"


@pytest.mark.parametrize("error", [HANGS, DIED])
def test_a_replacement_that_does_not_start_is_one_attempt_less(error):
    seat = FakeSeat(HANGS, PLAYED, on_replace=[error])
    played = play(seat)
    assert seat.replaced == 2
    assert [one.phase for one in played.restarts] == ["acting", "importing the simulator"]
    assert [one.step for one in played.restarts] == [8, 0]
    assert [one.log for one in played.restarts] == ["log 0", "log 1"]


def test_a_video_that_hangs_costs_no_episode():
    seat = FakeSeat(HANGS, PLAYED, last_phase="writing video")
    filmed = replace(PLAY, video="all")
    played = play_again_if_lost(
        seat, filmed, on_progress=lambda _: None, on_restart=lambda *_: None
    )
    assert [play.video for play in seat.plays] == ["all", "none"]
    assert played.success
    assert played.video_error.startswith("the simulator hung at: writing video")
    (restart,) = played.restarts
    assert in_words(restart).startswith("hung at: writing video, frame 8 (")


@pytest.mark.parametrize(("success", "due"), [(True, False), (False, True)])
def test_a_video_that_was_not_due_after_all_is_not_missing(success, due):
    seat = FakeSeat(HANGS, replace(PLAYED, success=success), last_phase="writing video")
    played = play_again_if_lost(
        seat,
        replace(PLAY, video="failures"),
        on_progress=lambda _: None,
        on_restart=lambda *_: None,
    )
    assert bool(played.video_error) == due


def test_the_count_begins_anew_with_each_episode():
    seat = FakeSeat(HANGS, HANGS, PLAYED, HANGS, HANGS, PLAYED)
    assert len(play(seat).restarts) == 2
    assert len(play(seat).restarts) == 2


def test_the_workers_death_is_not_the_simulators():
    seat = FakeSeat(DIED, PLAYED, ended=None)
    with pytest.raises(ProgramDied) as caught:
        play(seat)
    assert caught.value is DIED
    assert seat.replaced == 0


@pytest.mark.parametrize(
    "error", [DeadlineExceeded("the worker gave no chunk"), KeyboardInterrupt()]
)
def test_everything_else_is_passed_on_at_once(error):
    seat = FakeSeat(PLAYED)
    seat.play = lambda *_: (_ for _ in ()).throw(error)
    with pytest.raises(type(error)):
        play(seat)
    assert seat.replaced == 0


def test_one_that_cannot_be_ended_is_passed_on():
    stuck = LaunchError("it could not be ended: still there after SIGKILL")
    with pytest.raises(LaunchError, match="still there"):
        play(FakeSeat(HANGS, PLAYED, on_replace=[stuck]))
