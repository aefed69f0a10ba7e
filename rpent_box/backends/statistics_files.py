# SPDX-License-Identifier: Apache-2.0
"""Checks on dataset statistics: the numbers that a model's inputs and actions are scaled with.

Statistics of another robot or suite are the quietest way to score nothing, so that their lengths
and orders are checked before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.errors import BadCheckpoint


def require_vector(
    statistics: Mapping[str, Any],
    place: str | tuple[str, ...],
    length: int,
    *,
    role: str,
    belongs: Mapping[int, str] | None = None,
) -> NDArray[np.float64]:
    """Return the finite numbers [length] at `place`, a dotted path such as `action.global_min`.

    A tuple of names serves where a name has a dot in it. `role` names the file in messages, e.g.
    `statistics stats.json`. `belongs` says whose a length is, e.g. {7: "LIBERO", 14: "RoboTwin"}.
    Raises `BadCheckpoint`.
    """
    names = tuple(place.split(".")) if isinstance(place, str) else place
    place = _dotted(names)
    value = _at(statistics, names, role)
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadCheckpoint(f"{place} in the {role} is not a list of numbers") from error
    if vector.shape != (length,):
        raise _wrong_length(vector, place, length, role, belongs or {})
    if not np.isfinite(vector).all():
        column = int(np.argmin(np.isfinite(vector)))
        raise BadCheckpoint(f"{place} in the {role} has {vector[column]} in column {column}")
    return vector


def require_range(
    statistics: Mapping[str, Any],
    low: str | tuple[str, ...],
    high: str | tuple[str, ...],
    length: int,
    *,
    role: str,
    belongs: Mapping[int, str] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds [length]; none of them are the wrong way round.

    Raises `BadCheckpoint`.
    """
    lower = require_vector(statistics, low, length, role=role, belongs=belongs)
    upper = require_vector(statistics, high, length, role=role, belongs=belongs)
    if (lower > upper).any():
        column = int(np.argmax(lower > upper))
        raise BadCheckpoint(
            f"in the {role}, {_dotted(low)} is above {_dotted(high)} in column {column}: "
            f"{lower[column]:g} > {upper[column]:g}"
        )
    return lower, upper


def _dotted(place: str | tuple[str, ...]) -> str:
    return place if isinstance(place, str) else ".".join(place)


def _at(statistics: Mapping[str, Any], names: tuple[str, ...], role: str) -> object:
    value: object = statistics
    for depth, name in enumerate(names):
        if not isinstance(value, Mapping) or name not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "no names"
            raise BadCheckpoint(
                f"the {role} has no {_dotted(names)}: {_dotted(names[:depth]) or 'it'} has "
                f"{there or 'no names'}"
            )
        value = value[name]
    return value


def _wrong_length(
    vector: NDArray[np.float64], place: str, length: int, role: str, belongs: Mapping[int, str]
) -> BadCheckpoint:
    if vector.ndim != 1:
        return BadCheckpoint(
            f"{place} in the {role} has shape {list(vector.shape)}; wanted {length} numbers"
        )
    whose = f": {belongs[vector.size]}'s" if vector.size in belongs else ""
    wanted = f"{belongs[length]} has {length}" if length in belongs else f"wanted {length}"
    return BadCheckpoint(
        f"{place} in the {role} has {vector.size} numbers{whose}; {wanted}",
        hint="Give the statistics that came with these weights.",
    )
