# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

import pytest

from rpent_box.cli.asked import command_given
from rpent_box.errors import UsageError


def test_a_command_that_cannot_be_written_down_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["rpent-box", "eval", "--output", "caf\u00e9"])
    assert command_given() == ("rpent-box", "eval", "--output", "caf\u00e9")
    sys.argv[-1] = "caf\udce9"
    with pytest.raises(UsageError, match=r"caf\\udce9 is not UTF-8"):
        command_given()
