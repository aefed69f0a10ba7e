# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest

from rpent_box.backends.statistics_files import require_range, require_vector
from rpent_box.errors import BadCheckpoint

BELONGS = {7: "LIBERO", 14: "RoboTwin"}
STATISTICS = {
    "action": {"min": [-1.0] * 7, "max": [1] * 7, "wide": [0.0] * 14},
    "observation.state": {"q01": [0.0]},
}


def vector(place: str | tuple[str, ...], length: int = 7, statistics: Any = STATISTICS) -> Any:
    return require_vector(
        statistics, place, length, role="statistics s.json", belongs=BELONGS
    ).tolist()


def test_numbers_are_found_by_their_place() -> None:
    assert vector("action.max") == [1.0] * 7
    assert vector(("observation.state", "q01"), 1) == [0.0]


def test_statistics_of_another_robot_are_called_by_its_name() -> None:
    with pytest.raises(BadCheckpoint) as caught:
        vector("action.wide")
    assert caught.value.message == (
        "action.wide in the statistics s.json has 14 numbers: RoboTwin's; LIBERO has 7"
    )


def test_a_length_that_belongs_to_nobody_is_still_refused() -> None:
    with pytest.raises(BadCheckpoint, match="has 7 numbers: LIBERO's; wanted 8"):
        vector("action.max", 8)
    with pytest.raises(BadCheckpoint, match="q01 in the statistics s.json has 1 numbers; LIBERO"):
        vector(("observation.state", "q01"))


@pytest.mark.parametrize(
    ("place", "there"),
    [
        ("action.mean", "action has min, max, wide"),
        ("state.min", "it has action, observation.state"),
        ("action.min.deep", "action.min has no names"),
    ],
)
def test_a_missing_place_is_refused_with_what_is_there(place: str, there: str) -> None:
    with pytest.raises(BadCheckpoint, match=f"has no {place}: {there}"):
        vector(place)


@pytest.mark.parametrize(
    "value", [["a"] * 7, {"x": 1}, [[1.0] * 7], None, "text", [[1], [1, 2]], [10**400] * 7]
)
def test_what_is_no_list_of_numbers_is_refused(value: object) -> None:
    with pytest.raises(BadCheckpoint, match=r"a in the statistics s\.json"):
        vector("a", statistics={"a": value})


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_is_none_is_refused_with_its_column(number: float) -> None:
    with pytest.raises(BadCheckpoint, match=f"has {number} in column 2"):
        vector("a", 4, statistics={"a": [0, 1, number, math.nan]})


def test_bounds_are_returned_when_they_are_the_right_way_round() -> None:
    low, high = require_range(STATISTICS, "action.min", "action.max", 7, role="statistics")
    assert (low.tolist(), high.tolist()) == ([-1.0] * 7, [1.0] * 7)
    require_range(STATISTICS, "action.min", "action.min", 7, role="statistics")


def test_bounds_the_wrong_way_round_are_refused_with_their_column() -> None:
    swapped = {"low": [0, 5, 0], "high": [1, 4.5, 1]}
    with pytest.raises(BadCheckpoint, match="low is above high in column 1: 5 > 4.5"):
        require_range(swapped, "low", "high", 3, role="statistics")
