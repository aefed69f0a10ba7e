# SPDX-License-Identifier: Apache-2.0
"""Which recorded state each frame of a video shows."""

from __future__ import annotations

import pytest

from rpent_box.errors import BadOption
from rpent_box_robotwin.recording import Recording


def recording(states: int) -> Recording[int]:
    made: Recording[int] = Recording(15.0)
    made.start(0)
    for number in range(1, states):
        made.add(number)
    return made


def test_the_first_frame_is_the_scene_and_the_last_one_the_end() -> None:
    for states in (1, 2, 7, 31):
        shown = list(recording(states).at(10.0))
        assert shown[0] == 0
        assert shown[-1] == states - 1
        assert shown == sorted(shown)


def test_at_the_control_rate_every_state_is_shown_once() -> None:
    assert list(recording(5).at(15.0)) == [0, 1, 2, 3, 4]


def test_a_video_lasts_as_long_as_the_episode_at_its_rate() -> None:
    assert list(recording(31).at(5.0)) == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30]
    assert list(recording(3).at(30.0)) == [0, 0, 1, 1, 2]


def test_a_new_start_forgets_and_nothing_recorded_shows_nothing() -> None:
    made = recording(4)
    made.start(9)
    assert made.states == (9,)
    made.clear()
    assert list(made.at(10.0)) == []


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(fps: float) -> None:
    with pytest.raises(BadOption, match="frames per second"):
        list(recording(2).at(fps))
