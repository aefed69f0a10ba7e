# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from rpent_box.backends.mini_wam.paraphrase import paraphrase
from rpent_box.backends.mini_wam.reserved import is_reserved
from rpent_box.backends.mini_wam.text import encode_instruction, plain

TASKS = (
    "pick up the black bowl between the plate and the ramekin and place it on the plate",
    "pick up the black bowl next to the ramekin and place it on the plate",
    "pick up the black bowl from table center and place it on the plate",
    "pick up the black bowl on the cookie box and place it on the plate",
    "pick up the black bowl in the top drawer of the wooden cabinet and place it on the plate",
    "pick up the black bowl on the ramekin and place it on the plate",
    "pick up the black bowl next to the cookie box and place it on the plate",
    "pick up the black bowl on the stove and place it on the plate",
    "pick up the black bowl next to the plate and place it on the plate",
    "pick up the black bowl on the wooden cabinet and place it on the plate",
    "pick up the alphabet soup and place it in the basket",
    "pick up the tomato sauce and place it in the basket",
    "pick up the butter and place it in the basket",
    "open the middle drawer of the cabinet",
    "open the top drawer and put the bowl inside",
    "put the wine bottle on the rack",
    "put the wine bottle on top of the cabinet",
    "push the plate to the front of the stove",
    "turn on the stove",
)
MANY = 40


def said(sentence: str) -> list[str]:
    rng = np.random.default_rng(0)
    return [paraphrase(sentence, rng) for _ in range(MANY)]


@pytest.mark.parametrize("sentence", TASKS)
def test_a_sentence_is_said_in_many_ways_of_plain_words(sentence: str) -> None:
    ways = said(sentence)
    assert len(set(ways)) > MANY / 4
    assert all(way == plain(way) for way in ways)


def test_a_generator_that_begins_alike_says_the_same() -> None:
    assert said(TASKS[0]) == said(TASKS[0])


def test_no_way_to_say_one_task_is_a_way_to_say_another() -> None:
    ways = {way: task for task in TASKS for way in said(task)}
    for task in TASKS:
        assert all(ways[way] == task for way in said(task))


def test_a_paraphrase_is_nearly_always_nearest_to_its_own_task() -> None:
    known = np.stack([encode_instruction(task) for task in TASKS])
    near = [
        int(np.argmax(known @ encode_instruction(way))) == number
        for number, task in enumerate(TASKS)
        for way in said(task)
    ]
    assert np.mean(near) > 0.9


def test_what_comes_of_a_word_is_not_replaced_again() -> None:
    ways = said("pick up the bbq sauce and place it in the basket")
    assert any("bottle of bbq sauce" in way for way in ways)
    assert not any("wine" in way for way in ways)


def test_what_is_kept_for_scoring_is_never_said() -> None:
    kept = "switch on the stove"
    rng = np.random.default_rng(0)
    ways = {paraphrase("turn on the stove", rng) for _ in range(400)}
    assert is_reserved(kept)
    assert is_reserved("Switch on the stove.")
    assert not any(is_reserved(way) for way in ways)
    assert any("switch on" in way for way in ways), "its words are not forbidden"


def test_what_is_kept_for_scoring_is_not_said_politely_or_without_articles_either() -> None:
    for task, kept in (
        ("turn on the stove", ("switch on the stove", "switch on stove")),
        ("put the wine bottle on the rack", ("place the wine bottle on the rack",)),
        ("put the wine bottle on the rack", ("place wine bottle on rack",)),
        ("put the bowl on the stove", ("place the bowl on the stove", "place bowl on stove")),
    ):
        rng = np.random.default_rng(0)
        ways = {paraphrase(task, rng) for _ in range(2000)}
        assert len(ways) > 30
        assert not [way for way in ways if way.endswith(kept)]


def test_words_that_no_rule_knows_stay() -> None:
    assert all("zebra" in way for way in said("pick up the zebra and place it on the plate"))
