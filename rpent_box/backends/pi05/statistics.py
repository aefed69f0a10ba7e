# SPDX-License-Identifier: Apache-2.0
"""The numbers that openpi scales state and actions with, checked before it is imported."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from rpent_box.backends.pi05.configs import ACTION_WIDTH, ROBOT_ACTIONS, ROBOT_STATE
from rpent_box.backends.statistics_files import require_range, require_vector
from rpent_box.errors import BadCheckpoint

_LIMIT = 1.001
"""LIBERO's demonstrations are commands within [-1, 1]."""


class Columns(Struct, frozen=True, kw_only=True):
    """How many columns the statistics have; beyond the robot's own they are padding."""

    state: int
    actions: int


def check_statistics(document: dict[str, Any], *, role: str) -> Columns:
    """Return their lengths. Raises `BadCheckpoint` for what is not LIBERO's, or not whole.

    `role` names the file in messages. Older tools of openpi padded them to the model's width;
    openpi reads either.
    """
    state = _check_group(document, "state", ROBOT_STATE, role)
    actions = _check_group(document, "actions", ROBOT_ACTIONS, role)
    low, high = (
        require_vector(document, f"norm_stats.actions.{name}", actions, role=role)[:ROBOT_ACTIONS]
        for name in ("q01", "q99")
    )
    beyond = np.maximum(np.abs(low), np.abs(high)) > _LIMIT
    if beyond.any():
        column = int(np.argmax(beyond))
        raise BadCheckpoint(
            f"the {role} have actions from {low[column]:g} to {high[column]:g} in column {column}; "
            "LIBERO's are within [-1, 1]",
            hint="These are another robot's. Give LIBERO's: --asset-id NAME or --norm-stats FILE.",
        )
    return Columns(state=state, actions=actions)


def _check_group(document: dict[str, Any], group: str, least: int, role: str) -> int:
    length = _length(document, group, role)
    if not least <= length <= ACTION_WIDTH:
        raise BadCheckpoint(
            f"the {role} have {length} columns of {group}; LIBERO has {least}, padded to "
            f"{ACTION_WIDTH} at most",
            hint="Give the statistics that came with these weights.",
        )
    place = f"norm_stats.{group}"
    require_range(document, f"{place}.q01", f"{place}.q99", length, role=role)
    for name in ("mean", "std"):
        # Not used with quantiles; openpi refuses a file without them all the same.
        require_vector(document, f"{place}.{name}", length, role=role)
    return length


def _length(document: dict[str, Any], group: str, role: str) -> int:
    try:
        return len(document["norm_stats"][group]["q01"])
    except (KeyError, TypeError) as error:
        raise BadCheckpoint(
            f"the {role} have no quantiles of {group}: wanted norm_stats.{group}.q01 and q99",
            hint="Compute them with openpi's scripts/compute_norm_stats.py.",
        ) from error
