# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace
from rpent_box_toy.platform import PLATFORM

from rpent_box.errors import BadOption, UnknownName, UsageError
from rpent_box.sim.planning import (
    check_episodes,
    check_seed,
    check_task,
    find_suite,
    step_limit,
)

EASY = PLATFORM.suites[0]


def test_no_suite_means_the_default_one():
    assert find_suite(PLATFORM, None).name == "toy_easy"
    assert find_suite(PLATFORM, "toy_hard").max_steps == 25


def test_an_unknown_suite_is_an_error_that_lists_the_playable_ones():
    with pytest.raises(UnknownName, match="no suite called libero_9") as caught:
        find_suite(PLATFORM, "libero_9")
    assert "toy_easy, toy_hard" in caught.value.hint
    assert "toy_gone" not in caught.value.hint


def test_a_suite_without_its_files_says_what_is_missing():
    with pytest.raises(UsageError, match="cannot be played: no files"):
        find_suite(PLATFORM, "toy_gone")


def test_a_task_is_named_by_its_index():
    assert check_task(EASY, 1) == "reach_again"


@pytest.mark.parametrize("task", [-1, 2])
def test_an_unknown_task_is_an_error_that_says_which_there_are(task):
    with pytest.raises(UnknownName, match=f"no task {task}") as caught:
        check_task(EASY, task)
    assert "0 to 1" in caught.value.hint


@pytest.mark.parametrize(("first", "episodes"), [(0, 6), (5, 1), (2, 4)])
def test_each_init_state_may_be_played_once(first, episodes):
    check_episodes(EASY, first_init_state=first, episodes=episodes)


@pytest.mark.parametrize(
    ("first", "episodes", "hint"),
    [(0, 7, "--episodes up to 6"), (4, 3, "--episodes up to 2"), (6, 1, "up to 5")],
)
def test_more_episodes_than_init_states_are_refused(first, episodes, hint):
    with pytest.raises(BadOption, match="6 init states") as caught:
        check_episodes(EASY, first_init_state=first, episodes=episodes)
    assert hint in caught.value.hint


@pytest.mark.parametrize(("first", "episodes"), [(0, 0), (0, -2), (-1, 1)])
def test_episodes_that_cannot_be_counted_are_refused(first, episodes):
    with pytest.raises(BadOption):
        check_episodes(EASY, first_init_state=first, episodes=episodes)


def test_a_suite_without_recorded_states_has_as_many_as_asked():
    check_episodes(replace(EASY, init_states=0), first_init_state=900, episodes=1000)


def test_the_step_limit_is_the_suites_unless_given():
    assert step_limit(EASY, None) == 40
    assert step_limit(EASY, 3) == 3
    with pytest.raises(BadOption, match="step limit of 0"):
        step_limit(EASY, 0)


@pytest.mark.parametrize("seed", [-1, 1 << 32])
def test_a_seed_that_no_simulator_takes_is_refused(seed):
    with pytest.raises(BadOption, match=f"{seed} is no seed"):
        check_seed(seed)


def test_the_first_and_the_last_seed_are_taken():
    assert [check_seed(seed) for seed in (0, (1 << 32) - 1)] == [0, (1 << 32) - 1]
