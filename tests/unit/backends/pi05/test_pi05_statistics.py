# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pi05_tiny
import pytest

from rpent_box.backends.pi05.statistics import Columns, check_statistics
from rpent_box.errors import BadCheckpoint

ROLE = "statistics norm_stats.json"


def statistics() -> dict[str, Any]:
    return {
        "norm_stats": {
            name: {
                "mean": [0.0] * len(group["q01"]),
                "std": [1.0] * len(group["q01"]),
                "q01": list(group["q01"]),
                "q99": list(group["q99"]),
            }
            for name, group in (("state", pi05_tiny.STATE), ("actions", pi05_tiny.ACTIONS))
        }
    }


def pad(document: dict[str, Any], group: str, width: int) -> None:
    for vector in document["norm_stats"][group].values():
        vector += [0.0] * (width - len(vector))


def test_statistics_of_libero_have_eight_and_seven_columns() -> None:
    assert check_statistics(statistics(), role=ROLE) == Columns(state=8, actions=7)


def test_statistics_padded_to_the_models_width_are_taken() -> None:
    document = statistics()
    pad(document, "state", 32)
    pad(document, "actions", 32)
    assert check_statistics(document, role=ROLE) == Columns(state=32, actions=32)


@pytest.mark.parametrize(("group", "width"), [("state", 33), ("actions", 40)])
def test_wider_statistics_than_the_models_are_refused(group: str, width: int) -> None:
    document = statistics()
    pad(document, group, width)
    with pytest.raises(BadCheckpoint, match=f"{width} columns of {group}"):
        check_statistics(document, role=ROLE)


def test_narrower_statistics_than_the_robots_are_refused() -> None:
    document = statistics()
    for vector in document["norm_stats"]["state"].values():
        del vector[7:]
    with pytest.raises(BadCheckpoint, match="7 columns of state; LIBERO has 8"):
        check_statistics(document, role=ROLE)


def test_a_column_without_range_is_taken() -> None:
    document = statistics()
    actions = document["norm_stats"]["actions"]
    actions["q99"][2] = actions["q01"][2]
    assert check_statistics(document, role=ROLE).actions == 7


@pytest.mark.parametrize(("column", "name", "value"), [(0, "q99", 2.4), (6, "q01", -3.0)])
def test_statistics_of_another_robot_are_refused(column: int, name: str, value: float) -> None:
    document = statistics()
    document["norm_stats"]["actions"][name][column] = value
    with pytest.raises(BadCheckpoint, match=f"column {column}; LIBERO's are within"):
        check_statistics(document, role=ROLE)


def test_quantiles_the_wrong_way_round_are_refused() -> None:
    document = statistics()
    group = document["norm_stats"]["state"]
    group["q01"], group["q99"] = group["q99"], group["q01"]
    with pytest.raises(BadCheckpoint, match="above"):
        check_statistics(document, role=ROLE)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "0.5x"])
def test_a_number_that_is_none_is_refused(value: object) -> None:
    document = statistics()
    document["norm_stats"]["actions"]["q99"][3] = value
    with pytest.raises(BadCheckpoint):
        check_statistics(document, role=ROLE)


@pytest.mark.parametrize("document", [{}, {"norm_stats": []}, {"norm_stats": {"state": {}}}])
def test_a_file_of_another_form_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(BadCheckpoint, match="no quantiles of state"):
        check_statistics(document, role=ROLE)


@pytest.mark.parametrize("name", ["mean", "std"])
def test_what_openpi_itself_demands_is_demanded(name: str) -> None:
    document = statistics()
    del document["norm_stats"]["state"][name]
    with pytest.raises(BadCheckpoint, match=name):
        check_statistics(document, role=ROLE)
