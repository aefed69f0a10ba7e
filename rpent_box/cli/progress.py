# SPDX-License-Identifier: Apache-2.0
"""How a run goes, while it goes: a live view on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from rpent_box.contracts import control_messages
from rpent_box.contracts.control_messages import EpisodePlayed, Restart
from rpent_box.evaluate.config import RunWatcher, SilentWatcher
from rpent_box.evaluate.watchdog import in_words

LINE_EVERY_S = 5.0
"""Without a terminal, a line about steps comes at most this often."""
TURNS = frozenset({"predicting", "acting"})
"""Phases that alternate with every chunk."""


@contextmanager
def watch(*, episodes: int, quiet: bool) -> Iterator[RunWatcher]:
    """Yield the watcher that suits stderr, and tidy the terminal afterwards."""
    if quiet:
        yield SilentWatcher()
    elif sys.stderr.isatty():
        with LiveWatcher(Console(stderr=True), episodes=episodes) as live:
            yield live
    else:
        yield LineWatcher(episodes=episodes)


class LineWatcher:
    """Prints one line per event, with the seconds since the start."""

    def __init__(self, *, episodes: int) -> None:
        self._episodes = episodes
        self._say = speaker(quiet=False)
        self._last_line = 0.0
        self._phase = ""

    def on_launcher(self, name: str, why: str) -> None:
        self._say(f"launcher: {name} ({why})")

    def on_phase(self, component: str, text: str) -> None:
        self._say(f"{component}: {text}")

    def on_progress(self, episode: int, progress: control_messages.Progress) -> None:
        now = time.monotonic()
        phase = "acting" if progress.phase in TURNS else progress.phase
        if phase == self._phase and now - self._last_line < LINE_EVERY_S:
            return
        self._phase, self._last_line = phase, now
        steps = f" {steps_of(progress)}" if steps_of(progress) else ""
        self._say(f"episode {episode + 1}/{self._episodes}: {phase}{steps}")

    def on_restart(self, episode: int, restart: Restart) -> None:
        self._phase = ""
        self._say(f"episode {episode + 1}/{self._episodes}: {begun_again(restart)}")

    def on_episode(self, played: EpisodePlayed) -> None:
        self._phase = ""
        self._say(f"episode {played.episode + 1}/{self._episodes}: {outcome(played)}")


class LiveWatcher:
    """Keeps a few lines on the terminal: both programs' phases, the steps, the last outcome."""

    def __init__(self, console: Console, *, episodes: int) -> None:
        self._episodes = episodes
        self._solved = 0
        self._played = 0
        self.view = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description:<11}"),
            TextColumn("{task.fields[text]}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._components: dict[str, TaskID] = {}
        self._steps: TaskID | None = None
        self._all: TaskID | None = None

    def __enter__(self) -> LiveWatcher:
        self.view.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.view.stop()

    def on_launcher(self, name: str, why: str) -> None:
        self.view.console.print(f"launcher: {name} ({why})", highlight=False, markup=False)

    def on_phase(self, component: str, text: str) -> None:
        task = self._components.get(component)
        if task is None:
            task = self._add(component)
            self._components[component] = task
        done = text.startswith("ready")
        self.view.update(task, text=literal(text), total=1, completed=int(done))

    def on_progress(self, episode: int, progress: control_messages.Progress) -> None:
        if self._steps is None:
            self._steps = self._add("episode")
        if self._all is None and self._episodes > 1:
            self._all = self._add("run")
            self._count()
        self.view.update(
            self._steps,
            description=f"episode {episode + 1}",
            text=literal(progress.phase),
            completed=progress.steps,
            total=progress.max_steps or None,
            count=f"{steps_of(progress)} steps" if steps_of(progress) else "",
        )

    def on_restart(self, episode: int, restart: Restart) -> None:
        # Printed above the live lines, where it stays.
        self.view.console.print(
            f"episode {episode + 1}: {begun_again(restart)}", highlight=False, markup=False
        )
        if self._steps is not None:
            self.view.update(self._steps, text="starting another simulator", completed=0, count="")

    def on_episode(self, played: EpisodePlayed) -> None:
        self._played += 1
        self._solved += played.success
        if self._steps is not None:
            self.view.remove_task(self._steps)
            self._steps = None
        self._count(last=outcome(played))

    def _add(self, description: str) -> TaskID:
        return self.view.add_task(description, total=None, text="", count="")

    def _count(self, last: str = "") -> None:
        if self._all is not None:
            self.view.update(
                self._all,
                completed=self._played,
                total=self._episodes,
                text=f"last: {last}" if last else "",
                count=f"{self._solved} solved of {self._played} played, {self._episodes} in all",
            )


def steps_of(progress: control_messages.Progress) -> str:
    """Return `40/220` while the robot acts; nothing in the phases around it."""
    acting = progress.max_steps and (progress.steps or progress.phase in TURNS)
    return f"{progress.steps}/{progress.max_steps}" if acting else ""


def begun_again(restart: Restart) -> str:
    """Say that and why an episode is begun again."""
    return f"the simulator {in_words(restart)}; another one begins the episode again"


def outcome(played: EpisodePlayed) -> str:
    """Return one episode's result in a few words."""
    word = "solved" if played.success else "not solved"
    return f"{word} in {played.steps} steps, {played.wall_s:.1f} s"


def literal(text: str) -> str:
    """Keep rich from reading brackets in `text` as markup."""
    return text.replace("[", r"\[")


def speaker(*, quiet: bool) -> Callable[[str], None]:
    """Return what tells on stderr what a long command does, a line at a time."""
    if quiet:
        return lambda text: None
    started = time.monotonic()

    return lambda text: write_line(f"[{time.monotonic() - started:6.1f} s] {text}")


def write_line(text: str) -> None:
    """Write a line of progress on stderr. A log whose disk is full ends nothing that goes on."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        return
