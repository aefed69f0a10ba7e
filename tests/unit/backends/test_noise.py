# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpent_box.backends.noise import noise_seed
from rpent_box.contracts.messages import EpisodeKey

MOMENT = EpisodeKey(seed=7, suite="libero_spatial", task=0, episode=1, chunk=2)

KEYS = [
    (seed, EpisodeKey(seed=scene, suite=suite, task=task, episode=episode, chunk=chunk))
    for seed, scene, suite, task, episode, chunk in itertools.product(
        (0, 1), (7, 8), ("libero_10", "libero_spatial"), range(10), range(5), range(25)
    )
]
"""10,000 moments, neighbours in every direction."""


def test_ten_thousand_moments_have_noise_of_their_own() -> None:
    seeds = {noise_seed(seed, moment) for seed, moment in KEYS}
    # Two of so many numbers out of 2**31 coincide with a probability of 2 %; ours do not.
    assert len(seeds) == len(KEYS)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_neighbours_do_not_have_neighbouring_noise() -> None:
    upper = sum(noise_seed(seed, moment) >= 2**30 for seed, moment in KEYS)
    assert abs(upper - len(KEYS) / 2) < 300, "six deviations of a fair coin"


def test_the_order_of_asking_changes_nothing() -> None:
    in_order = {one: noise_seed(*one) for one in KEYS}
    shuffled = list(KEYS)
    random.Random(3).shuffle(shuffled)
    assert {one: noise_seed(*one) for one in shuffled} == in_order


def test_another_process_gets_the_same_noise() -> None:
    code = (
        "from rpent_box.backends.noise import noise_seed\n"
        "from rpent_box.contracts.messages import EpisodeKey\n"
        "print(noise_seed(3, EpisodeKey(seed=7, suite='libero_spatial', task=0, episode=1, "
        "chunk=2)))"
    )
    for hash_seed in ("1", "2"):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert int(shown.stdout) == noise_seed(3, MOMENT)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"suite": "libero_object"},
        {"task": 1},
        {"episode": 2},
        {"chunk": 3},
        # What only a careless joining of the parts would take for the same moment.
        {"task": 1, "episode": 0},
        {"suite": "libero_spatia", "task": 10},
    ],
    ids=str,
)
def test_every_part_of_the_moment_counts(change: dict[str, object]) -> None:
    assert noise_seed(1, replace(MOMENT, **change)) != noise_seed(1, MOMENT)


def test_the_models_own_seed_counts() -> None:
    assert noise_seed(1, MOMENT) != noise_seed(2, MOMENT)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([None, MOMENT]))
def test_any_seed_gives_one_that_every_framework_takes(
    seed: int, moment: EpisodeKey | None
) -> None:
    assert 0 <= noise_seed(seed, moment) < 2**31


def test_without_an_episode_the_seed_is_the_models_own() -> None:
    assert noise_seed(1140, None) == 1140
