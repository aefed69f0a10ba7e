# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.backends.request_options import refuse_unknown_options
from rpent_box.errors import BadOption


def test_known_options_and_none_at_all_pass() -> None:
    refuse_unknown_options({}, backend="wander")
    refuse_unknown_options({"seed": 1}, known=("num_steps", "seed"), backend="wander")


def test_all_unknown_options_are_named_with_those_that_are_known() -> None:
    given = {"temperature": 1.0, "seed": 1, "beam": 2}
    with pytest.raises(BadOption, match="wander knows no option beam, temperature") as caught:
        refuse_unknown_options(given, known=("num_steps", "seed"), backend="wander")
    assert caught.value.hint == "It knows: num_steps, seed."
