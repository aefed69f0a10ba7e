# SPDX-License-Identifier: Apache-2.0
"""How an episode is recorded, around a pretended scene."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pretended_scene import PretendedScene

from rpent_box.contracts.observation import Observation
from rpent_box_libero.teaching.episode import (
    CHUNK,
    SEGMENT,
    Episode,
    Recording,
    record_episode,
)

STILL = {"pushed_share": 0.0}


def record(
    seed: int = 0, student: Any = None, solved_after: int = 35, **recording: Any
) -> tuple[Episode, PretendedScene]:
    scene = PretendedScene(solved_after=solved_after)
    rng = np.random.default_rng(seed)
    return record_episode(scene, rng, Recording(**recording), student), scene  # type: ignore[arg-type]


def label_at(step: float) -> NDArray[np.float64]:
    """What the pretended expert does in the ten steps after `step`."""
    return np.stack([PretendedScene.expert_at(step + later) for later in range(CHUNK)])


def test_there_is_a_row_at_every_fifth_step_and_two_after_success() -> None:
    episode, _ = record(**STILL)
    shown = [int(row.observation.images["primary"][0, 0, 0]) for row in episode.rows]
    assert shown == [0, 5, 10, 15, 20, 25, 30, 35, 40]
    assert episode.solved
    assert episode.steps == 40


@pytest.mark.parametrize("seed", range(6))
def test_every_label_is_what_the_expert_would_do_however_it_was_come_by(seed: int) -> None:
    episode, scene = record(seed, **STILL)
    for number, row in enumerate(episode.rows):
        assert row.label is not None
        assert np.array_equal(row.label, label_at(number * SEGMENT)), number
    assert scene.labels_asked < len(episode.rows) or episode.level > 0


def test_a_calm_episode_asks_for_one_label_only() -> None:
    _, scene = record(noise=0.0, **STILL)
    assert scene.labels_asked == 1


def test_about_half_of_all_labels_come_without_rolling_forward() -> None:
    asked = rows = 0
    for seed in range(40):
        episode, scene = record(seed, solved_after=100, **STILL)
        asked += scene.labels_asked
        rows += len(episode.rows)
    assert 0.4 < asked / rows < 0.6


def test_what_was_done_stands_beside_the_label_and_nothing_in_the_last_row() -> None:
    episode, scene = record(1, **STILL)
    done = np.concatenate(scene.executed)
    assert np.array_equal(np.concatenate([row.executed for row in episode.rows[:-1]]), done)
    assert not episode.rows[-1].executed.any()


def test_an_episode_follows_from_its_generator_alone() -> None:
    def numbers(seed: int) -> NDArray[np.float64]:
        return np.stack([row.executed for row in record(seed)[0].rows])

    one, again, other = numbers(5), numbers(5), numbers(6)
    assert np.array_equal(one, again)
    assert one.shape != other.shape or not np.array_equal(one, other)


def test_both_sentences_are_told() -> None:
    assert {record(seed)[0].sentence for seed in range(12)} == {"pick it", "pick the thing"}


def test_some_episodes_begin_after_a_push_that_is_not_a_row() -> None:
    episode, scene = record(3, pushed_share=1.0)
    first = episode.rows[0].observation.images["primary"][0, 0, 0]
    assert 5 <= first <= 15
    assert episode.initial_state[0] == 0
    assert len(scene.executed[0]) == first


def test_the_student_acts_in_chunks_of_its_own_and_the_expert_labels() -> None:
    asked: list[tuple[int, str]] = []

    def student(observation: Observation) -> NDArray[np.float32]:
        asked.append((int(observation.images["primary"][0, 0, 0]), observation.instruction))
        return np.full((8, 7), 0.5, np.float32)

    episode, scene = record(2, student, student_share=1.0, **STILL)
    assert [step for step, _ in asked] == [0, 8, 16, 24, 32]
    assert {sentence for _, sentence in asked} == {episode.sentence}
    assert episode.student_acts
    assert all(np.array_equal(row.label, label_at(n * 5)) for n, row in enumerate(episode.rows))
    assert scene.labels_asked == len(episode.rows)


def test_less_than_half_of_a_students_chunks_are_disturbed() -> None:
    def student(observation: Observation) -> NDArray[np.float32]:
        return np.full((10, 7), 0.5, np.float32)

    undisturbed = []
    for seed in range(20):
        episode, _ = record(seed, student, student_share=1.0, **STILL)
        undisturbed += [bool((row.executed == 0.5).all()) for row in episode.rows[:-1]]
    assert 0.6 < np.mean(undisturbed) < 0.8


def test_without_its_share_the_student_does_not_act() -> None:
    def student(observation: Observation) -> NDArray[np.float32]:
        raise AssertionError("the student was asked")

    assert not record(2, student, student_share=0.0)[0].student_acts


def test_an_episode_ends_at_the_step_limit() -> None:
    episode, _ = record(3, max_steps=20, **STILL)
    assert not episode.solved
    assert episode.steps == 20
    assert len(episode.rows) == 5


def test_nothing_is_taught_where_the_scene_is_lost() -> None:
    scene = PretendedScene(solved_after=100, lost_after=20)
    episode = record_episode(
        scene,  # type: ignore[arg-type]
        np.random.default_rng(0),
        Recording(noise=0.0, **STILL),
        None,
    )
    assert not episode.solved
    assert len(episode.rows) == 4
    assert not episode.rows[-1].executed.any()
    assert np.array_equal(episode.rows[-1].label, label_at(15))
