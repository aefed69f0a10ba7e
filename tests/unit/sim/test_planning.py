# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace
from rpent_box_toy.platform import PLATFORM

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import BadCheckpoint, BadOption, BrokenPlugin, UnknownName, UsageError
from rpent_box.sim import planning
from rpent_box.sim.planning import (
    check_episodes,
    check_seed,
    find_suite,
    find_task,
    read_task,
    require_suite,
    step_limit,
)

SUITES = {suite.name: suite for suite in PLATFORM.suites}
EASY, SEEDED, FOGGY = (SUITES[name] for name in ("toy_easy", "toy_seeded", "toy_easy_foggy"))


def test_no_suite_means_the_default_one():
    assert find_suite(PLATFORM, None).name == "toy_easy"
    assert find_suite(PLATFORM, "toy_hard").max_steps == 25


def test_an_unknown_suite_is_an_error_that_lists_the_playable_ones():
    with pytest.raises(UnknownName, match="no suite called libero_9") as caught:
        find_suite(PLATFORM, "libero_9")
    assert "toy_easy, toy_hard" in caught.value.hint
    assert "toy_gone" not in caught.value.hint


def test_a_suite_that_is_nearly_named_is_suggested():
    with pytest.raises(UnknownName) as caught:
        find_suite(PLATFORM, "toy_esy_fogy")
    assert caught.value.hint.startswith("Did you mean toy_easy_foggy")
    assert caught.value.hint.endswith("See: rpent-box list --platform toy")


def test_a_suite_of_another_platform_says_of_which(monkeypatch):
    other = replace(PLATFORM, name="moon", suites=(replace(EASY, name="craters"),))
    monkeypatch.setattr(planning, "installed_platforms", lambda: [PLATFORM, other])
    with pytest.raises(UnknownName) as caught:
        find_suite(PLATFORM, "craters")
    assert "It is a suite of moon: --platform moon." in caught.value.hint


@pytest.mark.parametrize("limits", [(30,), (30, 60, 90)])
def test_a_suite_with_too_few_or_too_many_limits_is_a_broken_plugin(limits):
    broken = replace(PLATFORM, suites=(replace(SEEDED, task_max_steps=limits),))
    with pytest.raises(BrokenPlugin, match=f"2 tasks and {len(limits)} step limits"):
        find_suite(broken, "toy_seeded")


def test_a_suite_without_its_files_says_what_is_missing():
    with pytest.raises(UsageError, match="cannot be played: no files"):
        find_suite(PLATFORM, "toy_gone")


def test_a_task_is_named_by_its_index_or_its_name():
    assert find_task(EASY, 1) == find_task(EASY, "reach_again") == 1
    assert find_task(EASY, "reach") == 0


@pytest.mark.parametrize(("text", "task"), [("12", 12), ("-1", -1), ("reach", "reach")])
def test_a_number_is_an_index_and_every_other_word_a_name(text, task):
    assert read_task(text) == task


@pytest.mark.parametrize("task", [-1, 2, "nothing like it"])
def test_an_unknown_task_is_an_error_that_says_which_there_are(task):
    with pytest.raises(UnknownName, match=f"no task {task}") as caught:
        find_task(EASY, task)
    assert "0 to 1. See: rpent-box list --suite toy_easy" in caught.value.hint


def test_a_task_that_is_nearly_named_is_suggested():
    with pytest.raises(UnknownName, match="no task reech_again") as caught:
        find_task(EASY, "reech_again")
    assert caught.value.hint.startswith("Did you mean reach_again")


@pytest.mark.parametrize(("first", "episodes"), [(0, 6), (5, 1), (2, 4)])
def test_each_init_state_may_be_played_once(first, episodes):
    assert check_episodes(EASY, first_init_state=first, episodes=episodes) == first


def test_states_that_are_numbered_from_elsewhere_are_counted_from_there():
    later = replace(EASY, first_init_state=100)
    assert check_episodes(later, first_init_state=None, episodes=6) == 100
    assert check_episodes(later, first_init_state=105, episodes=1) == 105
    with pytest.raises(BadOption, match="no init state 99; the first is 100"):
        check_episodes(later, first_init_state=99, episodes=1)
    with pytest.raises(BadOption, match="7 episodes from init state 100") as caught:
        check_episodes(later, first_init_state=None, episodes=7)
    assert "--episodes up to 6" in caught.value.hint
    with pytest.raises(BadOption) as caught:
        check_episodes(later, first_init_state=106, episodes=1)
    assert "up to 105" in caught.value.hint


def test_where_states_are_seeds_any_seed_is_one_and_nothing_else():
    assert check_episodes(SEEDED, first_init_state=None, episodes=3) == 1000
    assert check_episodes(SEEDED, first_init_state=0, episodes=1) == 0
    assert check_episodes(SEEDED, first_init_state=(1 << 32) - 2, episodes=2) == (1 << 32) - 2
    for first, episodes in ((-1, 1), ((1 << 32) - 1, 2), (1 << 32, 1)):
        with pytest.raises(BadOption, match=r"they are seeds, from 0 to 4294967295"):
            check_episodes(SEEDED, first_init_state=first, episodes=episodes)


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


def test_the_step_limit_is_the_tasks_or_the_suites_unless_given():
    assert step_limit(EASY, 1, None) == 40
    assert [step_limit(SEEDED, task, None) for task in (0, 1)] == [30, 60]
    assert step_limit(SEEDED, 1, 3) == 3
    with pytest.raises(BadOption, match="step limit of 0"):
        step_limit(EASY, 0, 0)


def manifest(*suites):
    return CheckpointManifest(
        backend="toy", platform="toy", checkpoint="ours", files=(), suites=suites
    )


def test_what_is_tied_to_a_suite_may_play_it_and_its_variants():
    for tied in (manifest("toy_hard", "toy_easy"), manifest()):
        require_suite(tied, EASY)
        require_suite(tied, FOGGY)


def test_what_is_tied_to_a_variant_may_not_play_what_it_varies():
    require_suite(manifest("toy_easy_foggy"), FOGGY)
    with pytest.raises(BadCheckpoint, match="trained on toy_easy_foggy; you asked for toy_easy"):
        require_suite(manifest("toy_easy_foggy"), EASY)


def test_what_is_tied_to_another_suite_may_not_play_a_variant():
    with pytest.raises(BadCheckpoint) as caught:
        require_suite(manifest("toy_hard"), FOGGY)
    assert caught.value.message == (
        "the checkpoint ours was trained on toy_hard; you asked for toy_easy_foggy, "
        "a variant of toy_easy"
    )
    assert "give the checkpoint of toy_easy." in caught.value.hint
    assert "Play toy_hard: --suite toy_hard, or" in caught.value.hint
    # A suite that stands for itself is no variant of an empty name.
    with pytest.raises(BadCheckpoint):
        require_suite(manifest(""), EASY)


def test_what_it_may_play_instead_is_named_with_its_platform(monkeypatch):
    monkeypatch.setattr(planning, "installed_platforms", lambda: [PLATFORM])
    with pytest.raises(BadCheckpoint) as caught:
        require_suite(manifest("toy_easy"), replace(SEEDED, name="elsewhere"))
    assert "Play toy_easy: --platform toy --suite toy_easy, or" in caught.value.hint


@pytest.mark.parametrize("seed", [-1, 1 << 32])
def test_a_seed_that_no_simulator_takes_is_refused(seed):
    with pytest.raises(BadOption, match=f"{seed} is no seed"):
        check_seed(seed)


def test_the_first_and_the_last_seed_are_taken():
    assert [check_seed(seed) for seed in (0, (1 << 32) - 1)] == [0, (1 << 32) - 1]


def test_a_run_has_at_most_a_million_episodes():
    assert check_episodes(SEEDED, first_init_state=0, episodes=1_000_000) == 0
    for episodes in (0, 1_000_001, 4_000_000_000):
        with pytest.raises(BadOption, match=f"{episodes} episodes cannot be played; wanted 1 to"):
            check_episodes(SEEDED, first_init_state=0, episodes=episodes)
