# SPDX-License-Identifier: Apache-2.0
"""What a simulator's thread makes of episodes that end in errors, without any program."""

from types import SimpleNamespace

import pytest
from eval_record_parts import JOBS, played

from rpent_box.errors import LaunchError, ProgramDied, SimulatorHangs
from rpent_box.evaluate.scale.events import Failed, Finished
from rpent_box.evaluate.scale.player import Player, SeatLost
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.evaluate.watchdog import RESTARTS


class Seat:
    """A simulator that was connected; what is asked of it goes as a test says."""

    connected = "the worker"
    ready = None
    replaced = 0
    log = "simulator-0.log"

    def __init__(self, *, bad=(), starts=()):
        self._bad = bad
        self._starts = list(starts)
        """What the next replacements raise, None: nothing."""

    def play(self, play, on_progress):
        job = JOBS[play.episode]
        if job in self._bad:
            raise LaunchError("this scene cannot be built")
        return played(job)

    def replace(self, on_phase):
        self.replaced += 1
        error = self._starts.pop(0) if self._starts else None
        if error is not None:
            raise error


class Crew:
    """Has jobs, and takes whatever is told."""

    def __init__(self, tmp_path, jobs):
        self.told = []
        self.source = Schedule(jobs)
        self.launcher = SimpleNamespace(view="host")
        self.box = self.worker = None
        self.setup = SimpleNamespace(run_dir=tmp_path)
        self.plan = SimpleNamespace(play=lambda job, _folder: job)
        self.state = SimpleNamespace(
            simulator_name=str, spent=lambda _seconds: None, count_finished=lambda: None
        )

    def tell(self, event):
        self.told.append(event)
        if isinstance(event, (Finished, Failed)):
            self.source.done(event.job)

    def go_on(self, *, starting=False):
        pass

    def wait_for_worker(self):
        pass

    def worker_is_gone(self, error):
        return False

    def require_worker(self, error):
        pass

    def ended(self, kind):
        return [event.job for event in self.told if isinstance(event, kind)]


def player_on(seat, crew):
    player = Player(crew, 0, ())
    player._seat = seat
    return player


def test_after_an_error_the_next_episode_gets_a_fresh_simulator(tmp_path):
    crew = Crew(tmp_path, JOBS[:3])
    seat = Seat(bad=JOBS[:1])
    player_on(seat, crew)._play_all()
    assert (crew.ended(Failed), crew.ended(Finished)) == ([JOBS[0]], [*JOBS[1:3]])
    assert seat.replaced == 1


def test_an_episode_does_not_suffer_when_the_one_before_cost_the_simulator(tmp_path):
    crew = Crew(tmp_path, JOBS[:3])
    seat = Seat(bad=JOBS[:1], starts=[LaunchError("no engine answers")])
    with pytest.raises(SeatLost):
        player_on(seat, crew)._play_all()
    assert crew.ended(Failed) == [JOBS[0]]
    assert crew.source.unfinished == JOBS[1:3]
    assert crew.source.waiting == 2


@pytest.mark.parametrize("error", [ProgramDied("exit code 3"), SimulatorHangs("not ready")])
def test_where_a_simulator_could_start_before_another_one_is_tried_more_than_once(tmp_path, error):
    crew = Crew(tmp_path, JOBS[:2])
    player_on(Seat(bad=JOBS[:1], starts=[error] * RESTARTS), crew)._play_all()
    assert crew.ended(Finished) == [JOBS[1]]
    crew = Crew(tmp_path, JOBS[:2])
    with pytest.raises(SeatLost):
        player_on(Seat(bad=JOBS[:1], starts=[error] * (RESTARTS + 1)), crew)._play_all()


def test_who_is_told_to_leave_takes_no_more(tmp_path):
    crew = Crew(tmp_path, JOBS[:3])
    player = player_on(Seat(), crew)
    crew.state.count_finished = player.leave
    player._play_all()
    assert crew.ended(Finished) == [JOBS[0]]
    assert crew.source.waiting == 2
