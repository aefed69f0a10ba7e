# SPDX-License-Identifier: Apache-2.0
"""What a channel needs of whatever carries its messages: sockets, or a twin in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Frame: TypeAlias = bytes | memoryview | NDArray[Any]
"""One raw frame behind an envelope; arrays must be C-contiguous."""

Question = TypeVar("Question")
Answer = TypeVar("Answer")
QuestionIn = TypeVar("QuestionIn", contravariant=True)
AnswerIn = TypeVar("AnswerIn", contravariant=True)
AnswerOut = TypeVar("AnswerOut", covariant=True)


_LONGEST_POLL_S = 86_400.0


def poll_ms(left_s: float) -> int:
    """Return `left_s` as ZeroMQ's poll wants it, rounded up; a day at most, since it takes an int.

    Whoever polls looks at the clock afterwards, and polls again.
    """
    return max(0, int(min(left_s, _LONGEST_POLL_S) * 1000 + 0.999))


class Letter(Struct, Generic[Question], frozen=True):
    """One message that came in at the serving side."""

    connection: bytes
    """Names the connection; chosen by this side's socket, not by the client."""
    question: Question
    frames: list[memoryview]


class Asking(Protocol[QuestionIn, AnswerOut]):
    """The connecting side of a wire. One thread."""

    endpoint: str

    def send(self, question: QuestionIn, frames: Sequence[Frame] = ()) -> None:
        """Hand over one message. Raises `PeerGone`."""

    def receive(self, deadline: float) -> tuple[AnswerOut, list[memoryview]]:
        """Return the next message. Raises `DeadlineExceeded` once `time.monotonic()` has passed
        `deadline`, `PeerGone`, or `ProtocolMismatch` for what cannot be read."""

    def close(self) -> None: ...


class Serving(Protocol[Question, AnswerIn]):
    """The bound side of a wire. One thread, except `wake`."""

    endpoint: str

    def receive(self, timeout_s: float) -> Letter[Question] | None:
        """Return the next message, or None after `timeout_s` seconds or a `wake`."""

    def send(self, connection: bytes, answer: AnswerIn, frames: Sequence[Frame] = ()) -> bool:
        """Hand over one message; False when that connection is gone."""

    def wake(self) -> None:
        """Make `receive` return. From any thread."""

    def close(self) -> None: ...


def flat(frame: Frame) -> bytes | memoryview:
    """Return `frame` as one run of bytes, without a copy where it already is one."""
    if isinstance(frame, np.ndarray):
        return np.ascontiguousarray(frame).reshape(-1).data.cast("B")
    return frame
