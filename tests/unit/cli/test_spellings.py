# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.cli.spellings import RPENT_SPELLINGS, in_our_spelling


@pytest.mark.parametrize(("theirs", "ours"), sorted(RPENT_SPELLINGS.items()))
def test_each_rpent_spelling_becomes_ours_in_both_forms(theirs: str, ours: str) -> None:
    assert in_our_spelling([theirs, "value"]) == [ours, "value"]
    assert in_our_spelling([f"{theirs}=a=b"]) == [f"{ours}=a=b"]


def test_values_and_our_own_spellings_stay() -> None:
    words = ["--backend", "robot", "--checkpoint=/am-root"]
    assert in_our_spelling(words) == words


def test_words_behind_two_dashes_belong_to_the_backend() -> None:
    words = ["--robot", "toy", "--", "--am-root", "x"]
    assert in_our_spelling(words) == ["--platform", "toy", "--", "--am-root", "x"]
