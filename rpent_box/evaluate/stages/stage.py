# SPDX-License-Identifier: Apache-2.0
"""One stage of making a model: a program that is run to its end, in a Python of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from rpent_box.evaluate.stages.told import Told

MAKING = "making"
"""Folder, in that of what is made, that says how it was made: records and logs."""


class Stage(Struct, frozen=True, kw_only=True):
    """`python -m MODULE ARGUMENTS`, which goes on where it was stopped when it is run again.

    It tells how it goes in lines of JSON on its standard output; see `told.Told`.
    """

    name: str
    """One word, also of its log and its record, e.g. `train`."""
    title: str
    """For people."""
    python: str
    module: str
    arguments: tuple[str, ...]
    """What decides what it makes."""
    how: tuple[str, ...] = ()
    """Further arguments, of which nothing depends but how it is made."""
    folder: str
    """What it makes, or makes a part of; its log and its record go into `making/` there."""
    threads: int = 1
    environment: dict[str, str] = {}
    """Added to the caller's."""

    @property
    def command(self) -> tuple[str, ...]:
        return (self.python, "-m", self.module, *self.arguments, *self.how)

    @property
    def log(self) -> Path:
        return Path(self.folder) / MAKING / f"{self.name}.log"

    @property
    def record(self) -> Path:
        return Path(self.folder) / MAKING / f"{self.name}.json"


class StageWatcher(Protocol):
    """Is told how a stage goes, from the thread that called `run_stage`."""

    def on_stage(self, stage: Stage) -> None:
        """It begins."""

    def on_told(self, told: Told, left_s: float | None) -> None:
        """It said how it goes; `left_s` is how long it will take, None where that is unknown."""

    def on_words(self, line: str) -> None:
        """It said something else."""

    def on_end(self, stage: Stage, wall_s: float) -> None:
        """It is done."""
