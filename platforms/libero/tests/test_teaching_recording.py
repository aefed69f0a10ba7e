# SPDX-License-Identifier: Apache-2.0
"""Episodes recorded in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching import episode
from rpent_box_libero.teaching.episode import CHUNK, Episode, Recording, Row, record_episode
from rpent_box_libero.teaching.lessons import find_lesson

if TYPE_CHECKING:
    from rpent_box.contracts.observation import Observation
    from rpent_box_libero.teaching.scene import TeachingScene

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def scene() -> Iterator[TeachingScene]:
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        made = TeachingScene(find_lesson("libero_spatial-0"))
        yield made
        made.close()


def test_a_label_that_comes_free_is_the_one_that_rolling_forward_gives(
    scene: TeachingScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    rolled: list[np.ndarray] = []
    look = episode._look

    def look_and_roll(scene: TeachingScene, observation: Observation) -> Row:
        rolled.append(scene.label(CHUNK))
        return look(scene, observation)

    monkeypatch.setattr(episode, "_look", look_and_roll)
    recording = Recording(max_steps=50, noise=0.0)
    made = record_episode(scene, np.random.default_rng(3), recording, None)
    assert len(made.rows) == 11
    for number, (row, label) in enumerate(zip(made.rows, rolled, strict=True)):
        assert np.abs(row.label - label).max() < 1e-6, number


def test_an_episode_is_the_same_whatever_was_played_before(scene: TeachingScene) -> None:
    def record(seed: int) -> Episode:
        return record_episode(scene, np.random.default_rng(seed), Recording(max_steps=15), None)

    first, _, again = record(11), record(12), record(11)
    assert np.array_equal(first.initial_state, again.initial_state)
    for one, other in zip(first.rows, again.rows, strict=True):
        assert np.array_equal(one.label, other.label)
        assert np.array_equal(one.executed, other.executed)
        for role, frame in one.observation.images.items():
            assert np.array_equal(frame, other.observation.images[role]), role
