# SPDX-License-Identifier: Apache-2.0
import pytest

from rpent_box.errors import BadOption
from rpent_box.sim.recording import Recording


def recorded(steps: int) -> Recording[int]:
    recording: Recording[int] = Recording(control_hz=20.0)
    recording.start(0)
    for step in range(1, steps + 1):
        recording.add(step)
    return recording


def shown(recording: Recording[int], fps: float) -> list[int]:
    return list(recording.at(fps))


def test_the_control_rate_shows_every_state_once() -> None:
    assert shown(recorded(111), 20.0) == list(range(112))


def test_half_the_rate_shows_every_other_state_and_the_last() -> None:
    assert shown(recorded(5), 10.0) == [0, 2, 4, 5]


def test_twice_the_rate_repeats_states() -> None:
    assert shown(recorded(2), 40.0) == [0, 0, 1, 1, 2]


def test_a_scene_in_which_nothing_was_done_is_one_frame() -> None:
    assert shown(recorded(0), 30.0) == [0]


def test_starting_anew_forgets_the_last_episode() -> None:
    recording = recorded(5)
    recording.start(9)
    assert shown(recording, 20.0) == [9]
    assert recording.states == (9,)


def test_nothing_recorded_shows_nothing() -> None:
    recording = recorded(5)
    recording.clear()
    assert shown(recording, 10.0) == []


def test_the_first_frame_is_the_scene_and_the_last_one_the_end() -> None:
    for steps in (0, 1, 6, 30):
        frames = shown(recorded(steps), 7.0)
        assert (frames[0], frames[-1]) == (0, steps)
        assert frames == sorted(frames)


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_no_rate_is_refused(fps: float) -> None:
    with pytest.raises(BadOption, match="frames per second"):
        shown(recorded(1), fps)
