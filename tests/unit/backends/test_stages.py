# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from rpent_box.backends.stages import StageClock


def test_each_stage_lasts_from_the_end_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 10.5, 12.5, 12.75])
    monkeypatch.setattr("rpent_box.backends.stages.time.monotonic", lambda: next(times))
    clock = StageClock()
    assert clock.ended("encode") == {"encode": 0.5}
    clock.ended("infer")
    assert clock.ended("decode") == {"encode": 0.5, "infer": 2.0, "decode": 0.25}
