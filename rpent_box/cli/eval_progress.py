# SPDX-License-Identifier: Apache-2.0
"""How an evaluation goes, while it goes: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live

from rpent_box.cli.eval_table import counted, draw, facts, not_ready
from rpent_box.cli.progress import begun_again, speaker, write_line
from rpent_box.cli.tables import about
from rpent_box.contracts.control_messages import Progress, Restart
from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.manifest import FailedAttempt
from rpent_box.evaluate.scale.plan import Job
from rpent_box.evaluate.scale.watcher import Begun, EvalWatcher, EvalWatchers
from rpent_box.live.dashboard import serve_dashboard
from rpent_box.live.metrics_server import serve_metrics
from rpent_box.live.picture import Picture
from rpent_box.live.state import LiveState
from rpent_box.sim.results import EpisodeRow

SUMMARY_EVERY_S = 30.0
"""Without a terminal, how it stands is said at most this often."""
DRAWN_PER_S = 4.0

Say = Callable[[str], None]


class Showing(Struct, frozen=True, kw_only=True):
    """How an evaluation is shown."""

    quiet: bool
    dashboard_port: int | None
    """0: any free one. None: no page."""
    metrics: tuple[str, int] | None
    """Host and port; None: no metrics."""


class View(Struct, frozen=True):
    """What there is to look at while an evaluation goes."""

    watcher: EvalWatcher
    state: LiveState
    say: Say
    """Says a line on stderr, above what is drawn there."""


@contextmanager
def watching(showing: Showing) -> Iterator[View]:
    """Yield what follows an evaluation, and tidy the terminal afterwards.

    Raises `UsageError` where packages are missing, `BadOption` and `SocketBusy` for addresses.
    """
    state = LiveState()
    with ExitStack() as served:
        # Addresses come first, above all else, and also where nothing more is shown.
        if showing.dashboard_port is not None:
            url = served.enter_context(serve_dashboard(state, port=showing.dashboard_port))
            write_line(f"dashboard: {url}")
        if showing.metrics is not None:
            host, port = showing.metrics
            url = served.enter_context(serve_metrics(state, host=host, port=port))
            write_line(f"metrics: {url}")
        with _drawn(state, quiet=showing.quiet) as (teller, say):
            yield View(EvalWatchers([state, *teller]), state, say)


@contextmanager
def _drawn(state: LiveState, *, quiet: bool) -> Iterator[tuple[list[EvalWatcher], Say]]:
    if quiet:
        yield [], write_line
    elif not sys.stderr.isatty():
        yield [Lines(state)], write_line
    else:
        console = Console(stderr=True)
        with live_table(state, console):
            yield [Announcements(say := _printer(console))], say


@contextmanager
def live_table(state: LiveState, console: Console) -> Iterator[Live]:
    """Keep how `state` stands on the terminal, and take it away at the end."""
    drawing = Live(
        _Drawing(state),
        console=console,
        refresh_per_second=DRAWN_PER_S,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with drawing:
        yield drawing


class _Drawing:
    """Draws itself anew, for the size that the terminal has at that moment."""

    def __init__(self, state: LiveState) -> None:
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = max(console.size.height - 1, 1)
        yield from draw(self._state.picture(), width=options.max_width, height=height)


class Announcements(EvalWatchers):
    """Says what should stay on the terminal: that which is out of the ordinary."""

    def __init__(self, say: Say) -> None:
        super().__init__(())
        self._say = say

    def on_launcher(self, name: str, why: str) -> None:
        self._say(f"launcher: {name} ({why})")

    def on_begin(self, begun: Begun) -> None:
        self._say(begins(begun))

    def on_envs(self, place: str, count: int, why: str) -> None:
        self._say(plays_on(place, count, why))

    def on_restart(self, simulator: str, job: Job, restart: Restart) -> None:
        self._say(f"{named(job)}, simulator {simulator}: {begun_again(restart)}")

    def on_worker_lost(self, place: str, reason: str) -> None:
        self._say(worker_lost(place, reason))

    def on_failure(self, failed: FailedAttempt) -> None:
        self._say(error_in_words(failed))


class Lines(Announcements):
    """Says how it goes, a line at a time: one per episode, and now and then how all stands."""

    def __init__(self, state: LiveState, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(speaker(quiet=False))
        self._state = state
        self._clock = clock
        self._summed_up = clock()
        self._said: set[str] = set()

    def on_phase(self, component: str, text: str) -> None:
        # Of many simulators only that they are there: what they do until then is told together.
        if _is_simulator(component) and not text.startswith("ready"):
            self._sum_up_now_and_then()
        else:
            self._say(f"{component}: {text}")

    def on_progress(self, simulator: str, job: Job, progress: Progress) -> None:
        self._sum_up_now_and_then()

    def on_worker(self, place: str, figures: Figures) -> None:
        self._sum_up_now_and_then()

    def on_episode(self, row: EpisodeRow) -> None:
        picture = self._state.picture()
        self._say(f"{picture.done} of {picture.episodes}: {outcome(row)}")
        self._sum_up_now_and_then()

    def _sum_up_now_and_then(self) -> None:
        now = self._clock()
        if now - self._summed_up >= SUMMARY_EVERY_S:
            self._summed_up = now
            self._say(in_one_line(self._state.picture()))


def begins(begun: Begun) -> str:
    """Say how much is to be played, and where results go."""
    kept = len(begun.rows)
    tasks = counted(len(begun.manifest.plan.tasks), "task")
    left = f", {kept} of them played already" if kept else ""
    return f"{counted(len(begun.jobs), 'episode')} of {tasks}{left}: {_from_here(begun.run_dir)}"


def plays_on(place: str, count: int, why: str) -> str:
    """Say on how many simulators a machine plays."""
    where = f"{place}: " if place else ""
    return f"{where}{counted(count, 'simulator')}" + (f" ({why})" if why else "")


def worker_lost(place: str, reason: str) -> str:
    """Say that a worker ended and what becomes of it."""
    where = f"the worker of {place}" if place else "the worker"
    first, *_ = reason.splitlines() or [""]
    return f"{where} is lost ({first}); another one is started"


def named(job: Job) -> str:
    """Return which episode it is, in words that find it again."""
    return f"{job.suite} {job.task}, init state {job.init_state}, seed {job.seed}"


def outcome(row: EpisodeRow) -> str:
    """Return one episode's result in a line."""
    word = "solved" if row.success else "not solved"
    which = f"{row.suite} {row.task}, init state {row.init_state}, seed {row.seed}"
    where = f" (simulator {row.simulator})" if row.simulator else ""
    return f"{which}: {word} in {row.steps} steps, {row.wall_s:.1f} s{where}"


def error_in_words(failed: FailedAttempt) -> str:
    """Return which episode ended in an error, and its first line."""
    first, *_ = failed.message.splitlines() or [""]
    return (
        f"{failed.suite} {failed.task}, init state {failed.init_state}, seed {failed.seed}: "
        f"error: {first}"
    )


def in_one_line(picture: Picture) -> str:
    """Return how all stands, for a log."""
    if not picture.episodes or picture.phase == "starting":
        waits = [f"{one.name} ({one.text})" for one in not_ready(picture)]
        more = f" and {len(waits) - 3} more" if len(waits) > 3 else ""
        return f"starting: {', '.join(waits[:3]) or 'nothing is ready'}{more}"
    parts = [f"{picture.done} of {picture.episodes} played"]
    if picture.done:
        parts.append(
            f"{100 * picture.successes / picture.done:.1f}% solved "
            f"({100 * picture.low:.0f}–{100 * picture.high:.0f})"
        )
    parts += facts(picture)
    if picture.eta_s is not None:
        parts.append(f"{about(picture.eta_s)} left")
    return ", ".join(parts)


def _from_here(path: str) -> str:
    """Return `path` as it is reached from the working directory, where it is below that."""
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here) or path


def _is_simulator(component: str) -> bool:
    return "simulator" in component.split(" ")


def _printer(console: Console) -> Say:
    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    return say
