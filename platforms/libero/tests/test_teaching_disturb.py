# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from rpent_box_libero.teaching.disturb import disturb

ACTIONS = np.tile([0.5, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0], (10, 1))


def test_level_zero_changes_nothing_and_draws_nothing() -> None:
    rng = np.random.default_rng(0)
    same, calm = disturb(rng, ACTIONS, 0.0)
    assert np.array_equal(same, ACTIONS)
    assert calm
    assert rng.random() == np.random.default_rng(0).random()


def test_the_same_generator_gives_the_same_noise() -> None:
    one, _ = disturb(np.random.default_rng(3), ACTIONS, 1.0)
    two, _ = disturb(np.random.default_rng(3), ACTIONS, 1.0)
    assert np.array_equal(one, two)


def test_disturbed_actions_are_actions_and_the_given_ones_stay() -> None:
    rng = np.random.default_rng(1)
    before = ACTIONS.copy()
    for _ in range(200):
        moved, _ = disturb(rng, ACTIONS, 1.0)
        assert np.abs(moved).max() <= 1
        assert set(np.unique(moved[:, 6])) <= {-1.0, 1.0}
    assert np.array_equal(ACTIONS, before)


def test_a_third_of_the_chunks_stay_calm_and_calm_ones_stay_near() -> None:
    rng = np.random.default_rng(2)
    drawn = [disturb(rng, ACTIONS, 1.0) for _ in range(1000)]
    calm = [moved for moved, is_calm in drawn if is_calm]
    pushed = [moved for moved, is_calm in drawn if not is_calm]

    def bias(chunks: list[np.ndarray]) -> float:
        return float(np.mean([np.abs((chunk - ACTIONS)[:, :3].mean(0)).mean() for chunk in chunks]))

    assert 0.22 < len(calm) / len(drawn) < 0.36
    assert bias(calm) < 0.05
    assert bias(pushed) > 0.15


def test_a_wrong_gripper_is_never_called_calm() -> None:
    rng = np.random.default_rng(4)
    flipped = [
        is_calm
        for moved, is_calm in (disturb(rng, ACTIONS, 1.0) for _ in range(1000))
        if (moved[:, 6] < 0).any()
    ]
    assert flipped
    assert not any(flipped)
