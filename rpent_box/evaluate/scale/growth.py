# SPDX-License-Identifier: Apache-2.0
"""Whether more simulators are worth it, seen from what those that play and their worker do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from rpent_box.contracts.messages import Figures
from rpent_box.evaluate.scale.envs import Choice, Machine, Measured, more_envs, was_worth_it
from rpent_box.evaluate.scale.figures import since
from rpent_box.evaluate.scale.measuring import ProcessTable, this_machine

WINDOW_S = 15.0
REST = 8
"""So many windows pass between two looks, where there was no room for more."""
PATIENCE = 4
"""So many times the window is waited for episodes to end, before it is judged without."""


class Look(Struct, frozen=True, kw_only=True):
    """What is there at one moment."""

    simulators: tuple[int | None, ...]
    """Processes of those that play; None: not seen from this machine."""
    worker: int | None
    """None: it is borrowed, or not seen."""
    figures: Figures
    finished: int
    """Episodes, so far."""
    jobs: int | None
    """Episodes that wait; None: not known."""


class Growth:
    """Says when to add simulators, until that brings nothing any more. For one thread."""

    def __init__(
        self,
        *,
        window_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        machine: Callable[[], Machine] = this_machine,
        table: Callable[[], ProcessTable] = ProcessTable,
    ) -> None:
        """`window_s` is for how long to look before anything is said."""
        self.is_over = False
        """Nothing more is to be looked at: the number stays."""
        self._window_s = WINDOW_S if window_s is None else window_s
        self._clock = clock
        self._machine = machine
        self._table = table
        self._first: _Sample | None = None
        self._before: Measured | None = None
        self._rests_until = 0.0
        self._said = False
        """Why there are no more simulators."""

    @property
    def wants_a_look(self) -> bool:
        """Whether `look` would look at all: to gather what is there asks an engine a lot."""
        return not self.is_over and self._clock() >= self._rests_until

    def look(self, seen: Look) -> Choice | None:
        """Return how many simulators to go on with, once there is something to say; else None.

        Call it now and then while all simulators play.
        """
        if not self.wants_a_look:
            return None
        pids = [pid for pid in seen.simulators if pid is not None]
        if len(pids) < len(seen.simulators):
            return self._ended(seen, "what a simulator needs cannot be seen from here")
        if self._first is None or self._first.look.simulators != seen.simulators:
            self._first = self._sample(seen)
            return None
        if not self._has_seen_enough(self._first, seen):
            return None
        measured = self._measured(self._first, self._sample(seen))
        return self._judged(seen, measured)

    def _has_seen_enough(self, first: _Sample, seen: Look) -> bool:
        passed_s = self._clock() - first.at
        if passed_s < self._window_s:
            return False
        episodes = seen.finished - first.look.finished
        return episodes >= len(seen.simulators) or passed_s >= PATIENCE * self._window_s

    def _judged(self, seen: Look, measured: Measured) -> Choice | None:
        before, self._before, self._first = self._before, measured, None
        if before is not None and not was_worth_it(before, measured):
            return self._enough_added(before, measured)
        choice = more_envs(self._machine(), measured, jobs=seen.jobs)
        if choice.envs <= measured.envs:
            return self._enough(choice)
        return choice

    def _enough(self, choice: Choice) -> Choice | None:
        """Look again later: what keeps the machine busy now may be others, or a large scene."""
        self._before = None
        self._rests_until = self._clock() + REST * self._window_s
        # Once: the next time it would be said in other numbers, and change nothing.
        was_said, self._said = self._said, True
        return None if was_said else choice

    def _enough_added(self, before: Measured, after: Measured) -> Choice:
        self.is_over = True
        if after.pace < before.pace:
            return Choice(before.envs, f"slower with {after.envs}, so those that were added leave")
        return Choice(after.envs, f"no quicker than {before.envs}, so no more are added")

    def _ended(self, seen: Look, why: str) -> Choice:
        self.is_over = True
        return Choice(len(seen.simulators), why)

    def _sample(self, seen: Look) -> _Sample:
        table = self._table()
        pids = [*seen.simulators, seen.worker]
        cpu_s = {pid: table.cpu_s(pid) for pid in pids if pid is not None}
        return _Sample(self._clock(), seen, cpu_s, table)

    def _measured(self, first: _Sample, last: _Sample) -> Measured:
        passed_s = last.at - first.at
        look = last.look
        simulators = [pid for pid in look.simulators if pid is not None]
        used_s = {pid: max(0.0, last.cpu_s[pid] - first.cpu_s.get(pid, 0.0)) for pid in last.cpu_s}
        figures = since(first.look.figures, look.figures)
        inferences = sum(figures.batches.values())
        observations = sum(size * count for size, count in figures.batches.items())
        return Measured(
            envs=len(simulators),
            simulator_cpu=sum(used_s[pid] for pid in simulators) / len(simulators) / passed_s,
            simulator_memory=max(last.table.memory(pid) for pid in simulators),
            worker_cpu=0.0 if look.worker is None else used_s[look.worker] / passed_s,
            idle_cores=max(0.0, last.table.idle_s - first.table.idle_s) / passed_s,
            worker_busy=figures.busy_s / figures.ready_s if figures.ready_s > 0 else 0.0,
            mean_batch=observations / inferences if inferences else 1.0,
            max_batch=figures.max_batch,
            pace=figures.served / passed_s,
        )


class _Sample:
    """A look, when it was, and what each program had computed by then."""

    def __init__(
        self, at: float, look: Look, cpu_s: Mapping[int, float], table: ProcessTable
    ) -> None:
        self.at = at
        self.look = look
        self.cpu_s = cpu_s
        self.table = table
