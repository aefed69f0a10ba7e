# SPDX-License-Identifier: Apache-2.0
"""What the driver and the machines of a cluster say to each other: bytes, made by msgspec.

Ray's own serialisation carries nothing but these bytes and plain numbers.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from rpent_box.errors import ProtocolMismatch, RpentBoxError, from_code
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.events import Event, Failed, Finished
from rpent_box.evaluate.scale.plan import Job


class Assignment(Struct, frozen=True, kw_only=True):
    """What a machine is to play with. It makes its box from it, and is then given jobs."""

    place: str
    """`node-1`."""
    config: EvalConfig
    """As the driver has it. Its paths are those of that machine too."""
    cpus: int
    """Cores that Ray has set aside there."""
    gpus: int = 0
    """GPUs that Ray has set aside there, and names in that process's environment."""


class Hello(Struct, frozen=True, kw_only=True):
    """Where an assignment has come to, and what is installed there."""

    life: str
    """Another one after each restart."""
    host: str
    rpent_box: str
    protocol: int


class Trouble(Struct, frozen=True, kw_only=True):
    """An error on its way to the driver."""

    code: str
    message: str
    hint: str = ""
    detail: str = ""


class News(Struct, frozen=True, kw_only=True):
    """What happened since the driver last asked."""

    life: str
    number: int
    """Of the last event; given back with the next question, which says that all these came."""
    events: tuple[Event, ...] = ()
    logs: dict[str, bytes] = {}
    """Log → what it got since. A tail, where that is very much."""
    trouble: Trouble | None = None
    """Why this machine plays no more."""
    ended: bool = False
    """It plays no more, and its box is gone."""


class NotPlayed(Struct, frozen=True, kw_only=True, tag=True):
    """The answer to a job when the machine ends before it is played."""


Outcome: TypeAlias = Finished | Failed | NotPlayed


class Answer(Struct, frozen=True, kw_only=True):
    """What came of a job."""

    life: str
    """Of the box that says so: with what that one plays must be known before it counts."""
    outcome: Outcome


_Message = TypeVar("_Message")


def to_bytes(message: Struct) -> bytes:
    """Return `message` as it travels."""
    return msgspec.msgpack.encode(message)


def read_assignment(data: bytes) -> Assignment:
    """Raises `ProtocolMismatch`, as the others."""
    return _read(data, Assignment)


def read_hello(data: bytes) -> Hello:
    return _read(data, Hello)


def read_news(data: bytes) -> News:
    return _read(data, News)


def read_job(data: bytes) -> Job:
    return _read(data, Job)


def read_answer(data: bytes) -> Answer:
    return _read(data, Answer)


def trouble_of(error: RpentBoxError) -> Trouble:
    """Return `error` as it travels."""
    return Trouble(code=error.code, message=error.message, hint=error.hint, detail=error.detail)


def error_of(trouble: Trouble, where: str) -> RpentBoxError:
    """Return the error that a machine met, with that machine's name before it."""
    message = f"{where}: {trouble.message}"
    return from_code(trouble.code, message, hint=trouble.hint, detail=trouble.detail)


def _read(data: bytes, kind: type[_Message]) -> _Message:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ProtocolMismatch(
            f"a machine of the cluster sent no {kind.__name__}: {error}",
            hint="Install the same rpent-box on every machine of the cluster.",
        ) from error
