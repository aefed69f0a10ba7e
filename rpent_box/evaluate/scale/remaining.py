# SPDX-License-Identifier: Apache-2.0
"""How long an evaluation will take from here: what episodes cost, and how simulators share them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rpent_box.evaluate.scale.manifest import FailedAttempt
from rpent_box.evaluate.scale.plan import Job, TaskKey
from rpent_box.sim.results import EpisodeRow

RECENT_S = 300.0
MOST_ENDS = 1000
"""Of episodes, that are looked back to."""
MOST_OVERHEAD = 10.0
"""A simulator that was replaced once in a short time says little about the hours to come."""


class Episodes(Struct):
    """What some episodes took, added up."""

    count: int = 0
    around_s: float = 0.0
    """Building scenes and writing videos."""
    acting_s: float = 0.0
    max_steps: int = 0
    """That they might have acted for."""

    def add(self, row: EpisodeRow) -> None:
        self.count += 1
        self.around_s += row.setup_s + row.video_s
        self.acting_s += row.wall_s
        self.max_steps += row.max_steps


class Costs:
    """What an episode of each task costs one simulator, learned from those that were played."""

    def __init__(self, rows: Iterable[EpisodeRow] = ()) -> None:
        self._tasks: dict[TaskKey, Episodes] = {}
        self._suites: dict[str, Episodes] = {}
        self._all = Episodes()
        for row in rows:
            self.add(row)

    def add(self, row: EpisodeRow) -> None:
        """Learn from an episode, of this sitting or an earlier one."""
        self._all.add(row)
        self._suites.setdefault(row.suite, Episodes()).add(row)
        self._tasks.setdefault(TaskKey(row.suite, row.task), Episodes()).add(row)

    def seconds(self, task: TaskKey, max_steps: int) -> float | None:
        """Return what to expect of an episode; None while nothing at all was played.

        A task of which nothing is known is expected to be like others of its suite, or of all where
        none of that was played, in proportion to its step limit.
        """
        own, known = self._tasks.get(task), self._suites.get(task.suite, self._all)
        if own is not None:
            return (own.around_s + own.acting_s) / own.count
        if not known.count:
            return None
        per_step = known.acting_s / known.max_steps if known.max_steps else 0.0
        return known.around_s / known.count + per_step * max_steps


def overhead(occupied_s: float, productive_s: float) -> float:
    """Return how much longer simulators take than their episodes, at least 1.

    `occupied_s` is for how long there were simulators, of all of them together; `productive_s` what
    the episodes that came of it took, and those that are being played so far. Between the two lie
    restarts, attempts that were lost, and changes from one episode to the next.
    """
    if productive_s <= 0:
        return 1.0
    return min(max(occupied_s / productive_s, 1.0), MOST_OVERHEAD)


def seconds_left(
    costs: Costs,
    *,
    waiting: Mapping[tuple[TaskKey, int], int],
    playing: Iterable[tuple[Job, float]],
    simulators: int,
    overhead: float = 1.0,
) -> float | None:
    """Return about how long it takes until everything is played; None while nothing is known.

    `waiting` is (task, step limit) → episodes that nobody has begun; `playing` are those that
    somebody has, each with its seconds so far. The last episode cannot be shared.
    """
    if simulators < 1:
        return None
    to_begin, longest, episodes = 0.0, 0.0, 0
    for (task, max_steps), count in waiting.items():
        if count < 1:
            continue
        cost = costs.seconds(task, max_steps)
        if cost is None:
            return None
        to_begin += cost * count
        longest = max(longest, cost)
        episodes += count
    for job, age_s in playing:
        cost = costs.seconds(job.task_key, job.max_steps)
        if cost is None:
            return None
        left = max(cost - age_s, 0.0)
        to_begin += left
        longest = max(longest, left)
        episodes += 1
    at_once = min(simulators, episodes)
    return max(to_begin / at_once, longest) * overhead if at_once else 0.0


class _Seat(Struct):
    """One simulator, as far as time is concerned."""

    since: float
    """When it was first heard of."""
    began: float
    """When what it plays began, this attempt of it."""
    job: Job | None = None


class Outlook:
    """Learns from what an `EvalWatcher` is told how long it will take. `now` is in seconds.

    Belongs to one thread, or to whoever holds the lock around it. Its size depends on how many
    tasks and simulators there are, and not on how many episodes.
    """

    def __init__(self) -> None:
        self._costs = Costs()
        self._limits: dict[TaskKey, int] = {}
        self._waiting: Counter[TaskKey] = Counter()
        """Episodes that nobody plays, and that have no end in this sitting."""
        self._seats: dict[str, _Seat] = {}
        self._simulators: dict[str, int] = {}
        self._productive: deque[tuple[float, float]] = deque(maxlen=MOST_ENDS)
        """When episodes ended of late, and what they had taken."""

    def expect(self, jobs: Iterable[Job], rows: Iterable[EpisodeRow]) -> None:
        """These are to be played, but for what earlier sittings did."""
        for job in jobs:
            self._limits[job.task_key] = job.max_steps
            self._waiting[job.task_key] += 1
        for row in rows:
            self._costs.add(row)
            self._waiting[TaskKey(row.suite, row.task)] -= 1

    def plays_on(self, place: str, count: int) -> None:
        """A machine plays on so many simulators; 0: no more, as for one that was lost."""
        self._simulators[place] = count
        if not count:
            for name in [name for name in self._seats if name.rpartition("/")[0] == place]:
                self._forget(name)

    def left(self, simulator: str) -> None:
        """A simulator plays no more. How many are left of it its machine says for itself."""
        self._forget(simulator)

    def moved(self, simulator: str, job: Job, now: float) -> None:
        """A simulator plays `job`."""
        seat = self._seats.setdefault(simulator, _Seat(since=now, began=now))
        if seat.job != job:
            self.lost(simulator)
            self._waiting[job.task_key] -= 1
            seat.job, seat.began = job, now

    def lost(self, simulator: str) -> None:
        """What a simulator played, if it did, will be begun again."""
        seat = self._seats.get(simulator)
        if seat is not None and seat.job is not None:
            self._waiting[seat.job.task_key] += 1
            seat.job = None

    def _forget(self, simulator: str) -> None:
        self.lost(simulator)
        self._seats.pop(simulator, None)

    def played(self, row: EpisodeRow, now: float) -> None:
        """An episode has its result."""
        self._costs.add(row)
        self._productive.append((now, row.setup_s + row.wall_s + row.video_s))
        self._end(row.simulator, TaskKey(row.suite, row.task))

    def failed(self, failed: FailedAttempt) -> None:
        """An episode ended in an error: this sitting tries it no more."""
        self._end(failed.simulator, TaskKey(failed.suite, failed.task))

    def seconds_left(self, now: float) -> float | None:
        """Return about how long it takes from here; None while nothing is known."""
        playing = [(seat.job, now - seat.began) for seat in self._seats.values() if seat.job]
        return seconds_left(
            self._costs,
            waiting={(task, self._limits[task]): self._waiting[task] for task in self._limits},
            playing=playing,
            simulators=sum(self._simulators.values()) or len(self._seats),
            overhead=self._overhead(now, [age_s for _, age_s in playing]),
        )

    def _overhead(self, now: float, ages_s: Iterable[float]) -> float:
        """Return how it was of late: a machine that was busy with other things may be free now."""
        while self._productive and now - self._productive[0][0] > RECENT_S:
            self._productive.popleft()
        since = now - RECENT_S
        if len(self._productive) == MOST_ENDS:
            since = max(since, self._productive[0][0])
        occupied_s = sum(now - max(since, seat.since) for seat in self._in_use())
        productive_s = sum(cost for _, cost in self._productive) + sum(ages_s)
        return overhead(occupied_s, productive_s)

    def _in_use(self) -> list[_Seat]:
        """Return the simulators that are still there: some were given up, or left."""
        count = sum(self._simulators.values()) or len(self._seats)
        return sorted(self._seats.values(), key=lambda seat: seat.began, reverse=True)[:count]

    def _end(self, simulator: str, task: TaskKey) -> None:
        seat = self._seats.get(simulator)
        if seat is not None and seat.job is not None and seat.job.task_key == task:
            seat.job = None
        else:
            self._waiting[task] -= 1
