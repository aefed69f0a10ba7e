# SPDX-License-Identifier: Apache-2.0
"""What a stage says about itself: lines of JSON in its log, among other words."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TypeAlias

import msgspec
from msgspec import Struct

Value: TypeAlias = str | float | int | bool
COUNTS = (("done", "total"), ("step", "steps"), ("recorded", "episodes"))
"""Names under which a stage may say how far it is."""
OWN = frozenset({"event", "words", "eta_s", "elapsed_s", *(name for two in COUNTS for name in two)})
"""What is not shown among the values."""
LONGEST_LINE = 1 << 20
KEPT_LINES = 60
_COUNTED = re.compile(r"(\d+)/(\d+) (\S.*)")


class Told(Struct, frozen=True, kw_only=True):
    """One line: `{"event": "step", "done": 50, "total": 2000, "loss": 0.4}`."""

    event: str
    """What happened, in one word."""
    done: float | None = None
    """How much of the stage is done, in whatever it counts."""
    total: float | None = None
    eta_s: float | None = None
    """For how long it will go on, where it knows that better."""
    words: str = ""
    values: dict[str, Value] = {}
    """All else, as far as it is plain values."""

    @classmethod
    def read(cls, line: str) -> Told | None:
        """Return what a line tells; None for any other line.

        `50/2000 in these words` tells the same as an object with `done`, `total` and `words`.
        """
        if counted := _COUNTED.fullmatch(line):
            done, total, words = counted.groups()
            return cls(event="step", done=float(done), total=float(total), words=words)
        if not line.startswith("{"):
            return None
        with suppress(msgspec.DecodeError):
            fields = msgspec.json.decode(line)
            if isinstance(fields, dict) and isinstance(fields.get("event"), str):
                return cls._of(fields)
        return None

    @classmethod
    def _of(cls, fields: dict[str, object]) -> Told:
        done, total = next((two for two in COUNTS if two[0] in fields), COUNTS[0])
        return cls(
            event=str(fields["event"]),
            done=_number(fields.get(done)),
            total=_number(fields.get(total)),
            eta_s=_number(fields.get("eta_s")),
            words=str(fields.get("words", "")),
            values={
                name: value
                for name, value in fields.items()
                if name not in OWN and isinstance(value, (str, float, int))
            },
        )


class Pace:
    """How long a stage will take, by how fast it went since it began to tell."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._total = 0.0
        self._since = 0.0
        self._before = 0.0
        """How much was done when it first told of this total: in earlier sittings."""

    def left_s(self, told: Told) -> float | None:
        """Return for how many seconds it will go on; None where that is not known yet."""
        if told.eta_s is not None:
            return told.eta_s
        if told.done is None or told.total is None:
            return None
        now = self._clock()
        if told.total != self._total:
            self._total, self._since, self._before = told.total, now, told.done
        if told.done <= self._before:
            return None
        pace = (now - self._since) / (told.done - self._before)
        return pace * max(0.0, told.total - told.done)


class LogReader:
    """Reads what is added to a log from now on. A context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._begins = path.stat().st_size if path.exists() else 0
        self._rest = b""
        self._last: deque[str] = deque(maxlen=KEPT_LINES)

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def new_lines(self) -> Iterator[str]:
        """Yield the whole lines that were added since the last call."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open("rb")
            self._file.seek(self._begins)
        *lines, rest = (self._rest + self._file.read()).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        for line in lines:
            text = _decoded(line)
            self._last.append(text)
            yield text

    def last_lines(self) -> list[str]:
        """Return the last lines that were read, and the one that has no end yet."""
        return [*self._last, *([_decoded(self._rest)] if self._rest else [])]


def is_told(line: str) -> bool:
    """Say whether a line is one of those for programs, not for people."""
    return Told.read(line) is not None


def _decoded(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
