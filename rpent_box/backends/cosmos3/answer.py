# SPDX-License-Identifier: Apache-2.0
"""What comes back from `/v1/actions/generations`: read strictly, in the order that was asked.

A service may add fields; what is read here must be as promised, to the last number.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.backends.cosmos3.statistics import ACTION_NUMBERS
from rpent_box.errors import BadActions, PredictionFailed

SHOWN = 300
"""Characters of a strange answer that an error shows."""
LONGEST = 4096
"""Steps that one answer may have."""

Chunk: TypeAlias = NDArray[np.float32]
"""float32 [horizon, 10 or more], normalised."""


class Action(Struct, frozen=True, kw_only=True):
    """One environment's chunk."""

    type: str
    dtype: str
    shape: list[int]
    values: list[list[float | None]]
    """A number that JSON has no word for, such as NaN, comes as null."""
    raw_action_dim: int | None = None


class Record(Struct, frozen=True, kw_only=True):
    """One environment's answer."""

    input_index: int
    candidate_index: int
    action: Action


class Answer(Struct, frozen=True, kw_only=True):
    """The envelope."""

    object: str
    model: str
    data: list[Record]


def read_answer(body: bytes, *, count: int, model: str, service: str) -> list[Chunk]:
    """Return one chunk per input, by `input_index`.

    Raises `PredictionFailed` for what is no answer of the protocol, or of another model than
    `model`, and `BadActions` for one whose records or numbers cannot be used.
    """
    answer = _parse(body, service)
    if answer.object != "action.generation":
        raise PredictionFailed(
            f"{service} answered with the object {answer.object}; wanted action.generation"
        )
    if answer.model != model:
        raise PredictionFailed(
            f"{service} now serves {answer.model}; when this worker started it was {model}",
            hint="Start this worker again: its statistics may not be that model's.",
        )
    return [_chunk(record, service) for record in _in_order(answer.data, count, service)]


def _parse(body: bytes, service: str) -> Answer:
    try:
        # Not msgspec's own reader: a bare NaN, which Python services send, is an answer with a bad
        # number, and the error shall say which one.
        return msgspec.convert(json.loads(body), Answer)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        foreign = isinstance(error, msgspec.ValidationError)
        raise PredictionFailed(
            f"the answer of {service} is {'none of the protocol' if foreign else 'not JSON'}: "
            f"{error}",
            hint="Is that address SGLang's, of a release that serves /v1/actions/generations "
            "(0.5.19)?",
            detail=shown(body),
        ) from error


def shown(body: bytes) -> str:
    """Return the beginning of `body` as text."""
    text = body[: 4 * SHOWN].decode("utf-8", "replace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _in_order(records: list[Record], count: int, service: str) -> list[Record]:
    """Return the records by `input_index`, exactly one per input. Raises `BadActions`."""
    indices = [record.input_index for record in records]
    if sorted(indices) != list(range(count)):
        raise BadActions(
            f"{service} answered {count} inputs with {len(records)} records, for the inputs "
            f"{indices}; wanted each of 0 to {count - 1} once. Nothing was executed"
        )
    others = [record for record in records if record.candidate_index != 0]
    if others:
        raise BadActions(
            f"{service} answered with candidate {others[0].candidate_index} of input "
            f"{others[0].input_index}; one candidate, 0, was asked for"
        )
    return sorted(records, key=lambda record: record.input_index)


def _chunk(record: Record, service: str) -> Chunk:
    action, who = record.action, f"{service}, input {record.input_index}"
    if (action.type, action.dtype) != ("continuous", "float32"):
        raise BadActions(
            f"{who}: {action.type} actions of {action.dtype}; wanted continuous float32"
        )
    if action.raw_action_dim not in (None, ACTION_NUMBERS):
        raise BadActions(
            f"{who}: raw_action_dim is {action.raw_action_dim}; {ACTION_NUMBERS} was asked for"
        )
    came = _shape_of(action.values)
    if came is None or [*came] != action.shape:
        what = "rows of unequal length" if came is None else f"values of shape {[*came]}"
        raise BadActions(f"{who}: {what}; the answer itself says {action.shape}")
    if not 1 <= came[0] <= LONGEST or came[1] < ACTION_NUMBERS:
        raise BadActions(
            f"{who}: actions of shape {[*came]}; wanted 1 to {LONGEST} steps of at least "
            f"{ACTION_NUMBERS} numbers"
        )
    return _finite(action.values, who)


def _shape_of(values: list[list[float | None]]) -> tuple[int, int] | None:
    widths = {len(row) for row in values}
    if len(widths) > 1:
        return None
    return len(values), widths.pop() if widths else 0


def _finite(values: list[list[float | None]], who: str) -> Chunk:
    numbers = np.array(values, np.float64)  # None becomes NaN
    with np.errstate(over="ignore"):
        chunk = numbers.astype(np.float32)
    if not np.isfinite(chunk).all():
        step, column = (int(index) for index in np.argwhere(~np.isfinite(chunk))[0])
        raise BadActions(
            f"{who}: {values[step][column]} in step {step}, column {column} is no number to act "
            "on; nothing was executed",
            hint="null is how the service writes NaN: its model computed garbage, or its weights "
            "are damaged.",
        )
    return chunk
