# SPDX-License-Identifier: Apache-2.0
"""How a stage went, in all its sittings: what it cost, on what machine, and what it last told."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.errors import OutputError
from rpent_box.evaluate.stages.stage import Stage
from rpent_box.evaluate.stages.told import Told
from rpent_box.sim.manifest import HostFacts, as_json, host_facts
from rpent_box.sim.record import in_words
from rpent_box.sim.results import now, write_atomically

KEEP_EVERY_S = 10.0
"""How old a record may be while its stage runs: so much of a killed sitting's time is not counted.
"""
COMPLETE = "complete"
Words: TypeAlias = tuple[str, ...]


class StageSitting(Struct, frozen=True, kw_only=True):
    """From one start of a stage to its end."""

    started_at: str
    """UTC, ISO 8601."""
    ended_at: str | None = None
    """None: it goes on, or was killed."""
    ended: str = ""
    """`complete`, or why it ended before."""
    words: Words
    """The program that was run."""
    makes: Words
    """Of these, the module and what decides what it makes."""
    command: Words = ()
    """The command that asked for it."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of its processes that have ended."""
    host: HostFacts


class StageFile(Struct, frozen=True, kw_only=True):
    """The contents of `making/<stage>.json`."""

    sittings: tuple[StageSitting, ...] = ()
    told: dict[str, Told] = {}
    """Event → the last line that told of it."""

    @property
    def wall_s(self) -> float:
        """Of all sittings together."""
        return sum(one.wall_s for one in self.sittings)

    @property
    def cpu_s(self) -> float:
        """Of all sittings together."""
        return sum(one.cpu_s for one in self.sittings)

    def is_complete(self, stage: Stage) -> bool:
        """Say whether the last sitting made what `stage` makes, to the end."""
        if not self.sittings:
            return False
        last = self.sittings[-1]
        return last.ended == COMPLETE and last.makes == _makes(stage)


def read_stage_file(path: Path) -> StageFile:
    """Return the record at `path`; an empty one where there is none. Raises `OutputError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=StageFile)
    except FileNotFoundError:
        return StageFile()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} is not the record of a stage: {error}") from error


class StageRecord:
    """Writes the record of a sitting. A context manager: an error in it is what ended it."""

    def __init__(self, path: Path, earlier: StageFile, sitting: StageSitting) -> None:
        """`begin` makes one."""
        self._path = path
        self._earlier = earlier
        self._sitting = sitting
        self._told = dict(earlier.told)
        self._began = time.monotonic()
        self._cpu_before = _cpu_s()
        self._written = 0.0

    @classmethod
    def begin(cls, stage: Stage, command: Words) -> StageRecord:
        """Begin a sitting of `stage`, which `command` asked for. Raises `OutputError`."""
        sitting = StageSitting(
            started_at=now(),
            words=stage.command,
            makes=_makes(stage),
            command=command,
            host=host_facts(),
        )
        record = cls(stage.record, read_stage_file(stage.record), sitting)
        record.write()
        return record

    def __enter__(self) -> StageRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.end(in_words(error))

    def note(self, told: Told) -> None:
        """Note what the stage told."""
        self._told[told.event] = told

    def keep(self) -> None:
        """Write the record when that was not done for `KEEP_EVERY_S`. Raises `OutputError`."""
        if time.monotonic() - self._written >= KEEP_EVERY_S:
            self.write()

    def end(self, how: str) -> None:
        """End the sitting: `complete`, or why not. Raises `OutputError`."""
        self._sitting = replace(self._sitting, ended_at=now(), ended=how)
        self.write()

    def write(self) -> None:
        """Write what is known now. Raises `OutputError`."""
        self._sitting = replace(
            self._sitting,
            wall_s=round(time.monotonic() - self._began, 2),
            cpu_s=round(_cpu_s() - self._cpu_before, 2),
        )
        whole = StageFile(sittings=(*self._earlier.sittings, self._sitting), told=self._told)
        write_atomically(self._path, as_json(whole))
        self._written = time.monotonic()


def _makes(stage: Stage) -> Words:
    return (stage.module, *stage.arguments)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
