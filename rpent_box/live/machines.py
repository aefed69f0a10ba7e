# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one place that plays: how many simulators, and how its worker does."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from rpent_box.contracts.messages import Figures
from rpent_box.live.picture import Machine

RECENT_S = 30.0
MOST_SAMPLES = 64


class MachineNotes:
    """One machine, or one node of a cluster."""

    def __init__(self) -> None:
        self.envs = 0
        self.envs_why = ""
        self.lost = 0
        self._figures: Figures | None = None
        self._samples: deque[tuple[float, Figures]] = deque(maxlen=MOST_SAMPLES)

    def told(self, figures: Figures, now: float) -> None:
        """Its worker said what it has done."""
        if self._figures is not None and figures.ready_s < self._figures.ready_s:
            # Another worker: its counters begin anew.
            self._samples.clear()
        self._figures = figures
        # Only what a share is made of is kept, for the sake of many machines.
        self._samples.append((now, _times_of(figures)))
        while len(self._samples) > 2 and now - self._samples[0][0] > RECENT_S:
            self._samples.popleft()

    def lost_worker(self) -> None:
        self.lost += 1
        self._samples.clear()

    def picture(self, name: str) -> Machine:
        facts = Machine(
            name=name,
            envs=self.envs,
            envs_why=self.envs_why,
            figures=self._figures,
            lost=self.lost,
        )
        if not self._samples:
            return facts
        first = self._samples[0][1] if len(self._samples) > 1 else Figures()
        last = self._samples[-1][1]
        ready_s = last.ready_s - first.ready_s
        if ready_s <= 0:
            return facts
        return replace(
            facts,
            busy=_share(last.busy_s - first.busy_s, ready_s),
            gathering=_share(last.gathering_s - first.gathering_s, ready_s),
            idle=_share(last.idle_s - first.idle_s, ready_s),
        )


def _times_of(figures: Figures) -> Figures:
    return Figures(
        ready_s=figures.ready_s,
        busy_s=figures.busy_s,
        gathering_s=figures.gathering_s,
        idle_s=figures.idle_s,
    )


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole))
