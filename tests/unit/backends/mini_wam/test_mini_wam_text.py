# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from rpent_box.backends.mini_wam.text import TEXT_FEATURES, encode_instruction, plain

SENTENCE = "pick the akita black bowl and place it on the plate"


def likeness(left: str, right: str) -> float:
    return float(encode_instruction(left) @ encode_instruction(right))


def test_case_punctuation_and_spaces_do_not_matter() -> None:
    assert plain("  Pick the BOWL,\nplease. ") == "pick the bowl please"
    assert np.array_equal(encode_instruction(SENTENCE), encode_instruction(f" {SENTENCE.upper()}!"))


def test_an_instruction_is_a_float32_vector_of_length_one() -> None:
    features = encode_instruction(SENTENCE)
    assert features.shape == (TEXT_FEATURES,)
    assert features.dtype == np.float32
    assert np.linalg.norm(features) == pytest.approx(1.0, abs=1e-6)


def test_an_instruction_without_words_is_zeros_and_finite() -> None:
    assert not encode_instruction(" … ").any()


def test_the_encoding_is_the_one_that_weights_were_trained_with() -> None:
    features = encode_instruction("bowl")
    columns = {int(column): float(features[column]) for column in np.flatnonzero(features)}
    half = 0.4472135901451111
    assert columns == {65: -half, 140: half, 298: half, 301: -half, 459: -half}


def test_a_paraphrase_is_nearer_than_another_task() -> None:
    near = likeness(SENTENCE, "please pick up the black bowl and place it on the plate")
    far = likeness(SENTENCE, "open the top drawer of the cabinet")
    assert near > far + 0.3


def test_word_order_changes_the_encoding() -> None:
    assert likeness("put the cup on the plate", "put the plate on the cup") < 0.999
