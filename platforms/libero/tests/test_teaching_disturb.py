# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from rpent_box_libero.teaching.disturb import Spells, draw_disturbance, draw_push

ACTIONS = np.tile([0.5, 0.0, -0.5, 0.0, 0.0, 0.0, 1.0], (5, 1))


def test_at_level_zero_every_segment_is_calm_and_nothing_is_drawn() -> None:
    rng = np.random.default_rng(0)
    spells = Spells(rng, 0.0)
    assert all(spells.draw() is None for _ in range(40))
    assert rng.random() == np.random.default_rng(0).random()


def test_two_fifths_of_a_disturbed_episode_are_calm_and_spells_end_after_two_segments() -> None:
    calm, longest = 0, 0
    for seed in range(50):
        spells = Spells(np.random.default_rng(seed), 1.0)
        drawn = [spells.draw() for _ in range(40)]
        calm += sum(disturbance is None for disturbance in drawn)
        disturbed = [id(disturbance) for disturbance in drawn if disturbance is not None]
        longest = max(longest, *(disturbed.count(one) for one in disturbed))
    assert 0.35 < calm / 2000 < 0.45
    assert longest == 2


def test_disturbed_actions_are_actions_and_the_given_ones_stay() -> None:
    rng = np.random.default_rng(1)
    before = ACTIONS.copy()
    for _ in range(200):
        moved = draw_disturbance(rng, 1.0).apply(rng, ACTIONS)
        assert np.abs(moved).max() <= 1
        assert set(np.unique(moved[:, 6])) <= {-1.0, 1.0}
    assert np.array_equal(ACTIONS, before)


def test_a_bias_lasts_for_the_segment_and_grows_with_the_level() -> None:
    def bias(level: float) -> float:
        rng = np.random.default_rng(2)
        moved = [draw_disturbance(rng, level).apply(rng, ACTIONS) for _ in range(300)]
        return float(np.mean([np.abs((one - ACTIONS)[:, :3].mean(0)).mean() for one in moved]))

    assert 0.05 < bias(0.4) < bias(1.0) < 0.4


def test_few_grippers_do_the_wrong_thing() -> None:
    rng = np.random.default_rng(4)
    wrong = [draw_disturbance(rng, 1.0).wrong_gripper for _ in range(2000)]
    assert 0.02 < np.mean(wrong) < 0.06


def test_pushes_before_an_episode_are_actions_of_different_lengths() -> None:
    rng = np.random.default_rng(5)
    pushes = [draw_push(rng) for _ in range(100)]
    assert {len(push) for push in pushes} == set(range(5, 16))
    assert all(np.abs(push).max() <= 1 for push in pushes)
