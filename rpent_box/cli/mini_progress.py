# SPDX-License-Identifier: Apache-2.0
"""How a stage of making mini-wam goes: a bar on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rpent_box.cli.progress import LINE_EVERY_S, literal, speaker
from rpent_box.cli.tables import about, seconds
from rpent_box.evaluate.stages.stage import Stage, StageWatcher
from rpent_box.evaluate.stages.told import Told

Say = Callable[[str], None]


@contextmanager
def watching_stages(*, quiet: bool) -> Iterator[StageWatcher]:
    """Yield the watcher that suits stderr, and tidy the terminal afterwards."""
    if quiet:
        yield SilentStages()
    elif sys.stderr.isatty():
        with StageBar(Console(stderr=True)) as bar:
            yield bar
    else:
        yield StageLines(speaker(quiet=False))


class SilentStages:
    """Ignores everything."""

    def on_stage(self, stage: Stage) -> None:
        """Ignore it."""

    def on_told(self, told: Told, left_s: float | None) -> None:
        """Ignore it."""

    def on_words(self, line: str) -> None:
        """Ignore it."""

    def on_end(self, stage: Stage, wall_s: float) -> None:
        """Ignore it."""


class StageLines:
    """Says how it goes, a line at a time and not too often."""

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._title = ""
        self._said = -LINE_EVERY_S
        self._event = ""

    def on_stage(self, stage: Stage) -> None:
        self._title, self._event = stage.title, ""
        self._say(f"{self._title}: {stage.log}")

    def on_told(self, told: Told, left_s: float | None) -> None:
        now = self._clock()
        if told.event == self._event and now - self._said < LINE_EVERY_S:
            return
        self._event, self._said = told.event, now
        parts = [counted(told) or told.event, in_words(told), left(left_s)]
        self._say(f"{self._title}: {', '.join(filter(None, parts))}")

    def on_words(self, line: str) -> None:
        if line.strip():
            self._say(f"{self._title}: {line}")

    def on_end(self, stage: Stage, wall_s: float) -> None:
        self._say(f"{stage.title}: done in {seconds(wall_s)}")


class StageBar:
    """Keeps a line on the terminal. A context manager."""

    def __init__(self, console: Console) -> None:
        self.view = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[text]}"),
            console=console,
            transient=True,
        )
        self._task = self.view.add_task("", total=None, count="", left="", text="", visible=False)

    def __enter__(self) -> StageBar:
        self.view.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.view.stop()

    def on_stage(self, stage: Stage) -> None:
        self.view.reset(
            self._task,
            total=None,
            completed=0,
            description=literal(stage.title),
            count="",
            left="",
            text="",
            visible=True,
        )

    def on_told(self, told: Told, left_s: float | None) -> None:
        if told.done is not None and told.total is not None:
            self.view.update(
                self._task,
                completed=told.done,
                total=told.total,
                count=counted(told),
                left=left(left_s),
            )
        self.view.update(self._task, text=literal(in_words(told)))

    def on_words(self, line: str) -> None:
        self.view.update(self._task, text=literal(line.strip()))

    def on_end(self, stage: Stage, wall_s: float) -> None:
        # Printed above the live line, where it stays.
        self.view.console.print(
            f"{stage.title}: done in {seconds(wall_s)}", highlight=False, markup=False
        )
        self.view.update(self._task, visible=False)


def counted(told: Told) -> str:
    """Return `50/2000`; nothing where it does not count."""
    if told.done is None or told.total is None:
        return ""
    return f"{told.done:g}/{told.total:g}"


def left(left_s: float | None) -> str:
    """Return `about 12 min left`; nothing where that is unknown or over."""
    return f"{about(left_s)} left" if left_s else ""


def in_words(told: Told) -> str:
    """Return what else a line says: `solved 12, loss 0.31`."""
    values = (f"{name.replace('_', ' ')} {_short(one)}" for name, one in told.values.items())
    return ", ".join(filter(None, (told.words, *values)))


def _short(value: str | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
