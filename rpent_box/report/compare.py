# SPDX-License-Identifier: Apache-2.0
"""Whether two results differ: the same episodes played by both, and what differed in the set-up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rpent_box.evaluate.power import POWER, detectable_difference
from rpent_box.evaluate.scale.plan import JobKey, TaskKey, key_of
from rpent_box.evaluate.statistics import (
    LEVEL,
    holm,
    mcnemar_exact,
    median,
    median_interval,
    paired_difference_interval,
)
from rpent_box.report.load import Entry
from rpent_box.report.setup import Difference, differences
from rpent_box.report.words import count, points, probability
from rpent_box.sim.results import EpisodeRow

Verdict: TypeAlias = Literal["differ", "no difference shown", "no episode in common"]

Pair: TypeAlias = tuple[EpisodeRow, EpisodeRow]


class Outcomes(Struct, frozen=True, kw_only=True):
    """How often which of two, A and B, solved the same episode."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def pairs(self) -> int:
        return self.both + self.only_a + self.only_b + self.neither


class Tested(Struct, frozen=True, kw_only=True):
    """Outcomes of pairs, and what they say."""

    outcomes: Outcomes
    pairs: int
    rate_a: float | None
    """Over the pairs; None: there is none."""
    rate_b: float | None
    difference: float | None
    """B's rate above A's."""
    interval: tuple[float, float]
    """95 %, of the difference: Newcombe's method 10 for paired proportions."""
    p: float
    """Two-sided, of the exact McNemar test."""


class TaskTested(Tested, frozen=True, kw_only=True):
    suite: str
    task: int
    name: str
    instruction: str
    """Of A's first episode."""
    p_holm: float
    """Corrected for the number of tasks, after Holm."""


class Steps(Struct, frozen=True, kw_only=True):
    """Of the pairs that both solved: how many steps B took above A."""

    pairs: int
    median_a: float | None
    median_b: float | None
    median_difference: float | None
    interval: tuple[float, float] | None
    """95 % or more, of the median difference, from order statistics; None: fewer than 6 pairs."""


class Sameness(Struct, frozen=True, kw_only=True):
    """What pairs have in common beyond their names."""

    scenes: int
    """Pairs whose first frames are the same, byte by byte."""
    actions: int
    """Pairs in which every executed action is the same, bit by bit."""
    instructions: int
    """Pairs that were given the same sentence."""
    contradictions: int
    """Pairs with the same first frames and the same actions, and another outcome: the simulator
    does not repeat itself."""


class Side(Struct, frozen=True, kw_only=True):
    """One of the two."""

    runs: tuple[str, ...]
    """The folders' names."""
    backend: str
    checkpoint: str
    asked: int
    """Episodes that were to be played."""
    played: int
    """Of these, that have a result."""
    successes: int


class Comparison(Struct, frozen=True, kw_only=True):
    """Everything that two results say about each other."""

    a: Side
    b: Side
    verdict: Verdict
    sentence: str
    """The verdict, in a sentence with its figures."""
    total: Tested
    tasks: tuple[TaskTested, ...]
    """In A's order; those with a pair."""
    detectable: float | None
    """Which difference of rates so many pairs show with a chance of 80 %, where as many of them
    have different outcomes as here; None: they could not have shown any so reliably."""
    steps: Steps
    same: Sameness
    only_in_a: tuple[JobKey, ...]
    """Played by A alone, and so not compared."""
    only_in_b: tuple[JobKey, ...]
    differences: tuple[Difference, ...]
    """Of the set-ups, those that decide results first."""


def compare(a: Entry, b: Entry) -> Comparison:
    """Compare two results of one platform, episode by episode: suite, task, init state, seed."""
    rows_a = {key_of(row): row for _, row in a.rows()}
    rows_b = {key_of(row): row for _, row in b.rows()}
    pairs = [(row, rows_b[key]) for key, row in rows_a.items() if key in rows_b]
    total = _tested(pairs)
    verdict = _verdict(total)
    detectable, same = _detectable(total), _same(pairs)
    only_in_a = tuple(sorted(rows_a.keys() - rows_b.keys()))
    only_in_b = tuple(sorted(rows_b.keys() - rows_a.keys()))
    sentence = _sentence(verdict, total, detectable, same) + _left_out(only_in_a, only_in_b)
    return Comparison(
        a=_side(a),
        b=_side(b),
        verdict=verdict,
        sentence=sentence,
        total=total,
        tasks=_tasks(a, b, pairs),
        detectable=detectable,
        steps=_steps(pairs),
        same=same,
        only_in_a=only_in_a,
        only_in_b=only_in_b,
        differences=(*_row_differences(pairs), *differences(a.setup, b.setup)),
    )


def _tested(pairs: Sequence[Pair]) -> Tested:
    counts = Counter((a.success, b.success) for a, b in pairs)
    outcomes = Outcomes(
        both=counts[True, True],
        only_a=counts[True, False],
        only_b=counts[False, True],
        neither=counts[False, False],
    )
    solved_a, solved_b = outcomes.both + outcomes.only_a, outcomes.both + outcomes.only_b
    count = outcomes.pairs
    return Tested(
        outcomes=outcomes,
        pairs=count,
        rate_a=solved_a / count if count else None,
        rate_b=solved_b / count if count else None,
        difference=(solved_b - solved_a) / count if count else None,
        interval=paired_difference_interval(
            outcomes.both, outcomes.only_a, outcomes.only_b, outcomes.neither
        ),
        p=mcnemar_exact(outcomes.only_a, outcomes.only_b),
    )


def _tasks(a: Entry, b: Entry, pairs: Sequence[Pair]) -> tuple[TaskTested, ...]:
    by_task: dict[TaskKey, list[Pair]] = {}
    for pair in pairs:
        by_task.setdefault(TaskKey(pair[0].suite, pair[0].task), []).append(pair)
    names = {
        key: name
        for entry in (b, a)
        for folder in entry.folders
        for key, name in folder.task_names.items()
    }
    tested = {key: _tested(pairs) for key, pairs in by_task.items()}
    corrected = holm([one.p for one in tested.values()])
    return tuple(
        TaskTested(
            suite=key.suite,
            task=key.task,
            name=names.get(key, ""),
            instruction=by_task[key][0][0].instruction,
            p_holm=p_holm,
            outcomes=one.outcomes,
            pairs=one.pairs,
            rate_a=one.rate_a,
            rate_b=one.rate_b,
            difference=one.difference,
            interval=one.interval,
            p=one.p,
        )
        for (key, one), p_holm in zip(tested.items(), corrected, strict=True)
    )


def _steps(pairs: Sequence[Pair]) -> Steps:
    solved = [(a.steps, b.steps) for a, b in pairs if a.success and b.success]
    above = [b - a for a, b in solved]
    return Steps(
        pairs=len(solved),
        median_a=median(a for a, _ in solved),
        median_b=median(b for _, b in solved),
        median_difference=median(above),
        interval=median_interval(above),
    )


def _same(pairs: Sequence[Pair]) -> Sameness:
    return Sameness(
        scenes=sum(a.first_frames_sha256 == b.first_frames_sha256 for a, b in pairs),
        actions=sum(a.actions_sha256 == b.actions_sha256 for a, b in pairs),
        instructions=sum(a.instruction == b.instruction for a, b in pairs),
        contradictions=sum(_is_contradiction(a, b) for a, b in pairs),
    )


def _is_contradiction(a: EpisodeRow, b: EpisodeRow) -> bool:
    is_same = (a.first_frames_sha256, a.actions_sha256) == (b.first_frames_sha256, b.actions_sha256)
    return is_same and a.success != b.success


def _side(entry: Entry) -> Side:
    rows = [row for _, row in entry.rows()]
    deciding = entry.setup.deciding
    return Side(
        runs=tuple(folder.name for folder in entry.folders),
        backend=deciding.get("worker.meta.backend") or deciding.get("backend", ""),
        checkpoint=deciding.get("worker.meta.checkpoint", ""),
        asked=sum(len(folder.asked) for folder in entry.folders),
        played=len(rows),
        successes=sum(row.success for row in rows),
    )


def _row_differences(pairs: Sequence[Pair]) -> list[Difference]:
    """Return what pairs were played with differently; limits of steps are a task's own."""
    found = []
    for field in ("max_steps", "execute_steps"):
        values: dict[tuple[str, str], set[str]] = {}
        for a, b in pairs:
            if getattr(a, field) != getattr(b, field):
                change = (str(getattr(a, field)), str(getattr(b, field)))
                values.setdefault(change, set()).add(f"{a.suite} {a.task}")
        for (ours, theirs), tasks in values.items():
            where = f" ({', '.join(sorted(tasks))})"
            path = f"episodes.{field}" + where
            found.append(Difference(path=path, kind="decides", a=ours, b=theirs))
    return found


def _verdict(total: Tested) -> Verdict:
    if not total.pairs:
        return "no episode in common"
    return "differ" if total.p < LEVEL else "no difference shown"


def _detectable(total: Tested) -> float | None:
    if not total.pairs:
        return None
    differing = total.outcomes.only_a + total.outcomes.only_b
    return detectable_difference(total.pairs, differing / total.pairs)


def _sentence(verdict: Verdict, total: Tested, detectable: float | None, same: Sameness) -> str:
    if total.difference is None:
        return "A and B have no episode in common: nothing can be compared."
    if same.actions == same.scenes == total.pairs and not same.contradictions:
        return (
            f"They did the same: in each of {_shared(total)}, first frames and executed actions "
            "are equal, bit by bit."
        )
    low, high = (points(bound) for bound in total.interval)
    figures = (
        f"B's success rate is {_above(total.difference)} A's over {_shared(total)} "
        f"(95% interval of the difference {low} to {high} points, exact McNemar test "
        f"p {_equals(total.p)})."
    )
    if verdict == "differ":
        return f"They differ. {figures}"
    could = (
        f"A true difference of {points(detectable, signed=False)} points would be shown by so "
        f"many episodes with a chance of {POWER:.0%}; a smaller one may well be there."
        if detectable is not None
        else "So few episodes could hardly have shown any."
    )
    return f"No difference is shown, which does not make them equal. {figures} {could}"


def _left_out(only_in_a: Sequence[JobKey], only_in_b: Sequence[JobKey]) -> str:
    """Say how many episodes are not compared; empty: all are."""
    parts = [
        f"{count(len(keys), 'episode')} that only {side} has played"
        for side, keys in (("A", only_in_a), ("B", only_in_b))
        if keys
    ]
    return f" Left out: {' and '.join(parts)}." if parts else ""


def _shared(total: Tested) -> str:
    return count(total.pairs, "shared episode")


def _above(difference: float) -> str:
    if not difference:
        return "equal to"
    where = "above" if difference > 0 else "below"
    return f"{points(abs(difference), signed=False)} points {where}"


def _equals(p: float) -> str:
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"
