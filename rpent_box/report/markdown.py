# SPDX-License-Identifier: Apache-2.0
"""Scores as Markdown tables, for pages that live beside the code: a model's card above all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from rpent_box.evaluate.statistics import mean
from rpent_box.plugins import installed_platforms
from rpent_box.report.figures import PlayedScore, SuiteScore, TaskScore, figures_of
from rpent_box.report.load import Entry
from rpent_box.report.words import DASH, NOTHING, interval, number, percent, ranges

SUITES_HEADER = (
    *("suite", "options", "folder", "seeds", "solved", "rate", "95%"),
    "steps of solved ones, mean (range)",
)
FRAMES_HEADER = ("suite", "options", "episodes", "frames it expected", "copies of the last one")
TASK_HEADER = ("task", "sentence", "solved", "95%", "steps of solved ones")


class Exam(Struct, frozen=True, kw_only=True):
    """One suite as one result has it."""

    entry: Entry
    score: SuiteScore

    @property
    def suite(self) -> str:
        return self.score.suite

    @property
    def options(self) -> str:
        """What the model and the platform were told, in the words of a command line."""
        plan = self.entry.first.manifest.plan
        words = [*plan.backend_arguments, *plan.platform_arguments]
        if plan.execute_steps is not None:
            words.append(f"--execute-steps={plan.execute_steps}")
        return " ".join(f"`{word}`" for word in words)

    @property
    def seeds(self) -> str:
        """Of the episodes that were played."""
        return ranges({row.seed for _, row in self.entry.rows() if row.suite == self.suite})


def exams_of(entries: Sequence[Entry]) -> list[Exam]:
    """Return every suite of every entry, in order."""
    return [
        Exam(entry=entry, score=score) for entry in entries for score in figures_of(entry).suites
    ]


def tables_of(entries: Sequence[Entry]) -> str:
    """Return a table of suites, and for each a table of its tasks; of variants, beside it."""
    exams = exams_of(entries)
    # Where all have the same, `played_with` says them.
    differ = len({exam.seeds for exam in exams}) > 1
    alike = Counter((exam.suite, exam.options) for exam in exams)
    rows = [
        _suite_row(
            exam,
            seeds=exam.seeds if differ else "",
            # What differs in neither of them, but in the version say, is told by its folder.
            folder=exam.entry.first.name if alike[exam.suite, exam.options] > 1 else "",
        )
        for exam in exams
    ]
    parts = [table(SUITES_HEADER, rows)]
    frames = [row for exam in exams if (row := _frames_row(exam)) is not None]
    if frames:
        parts.append(
            "What it expected to see after a chunk, against what was then seen, in dB (PSNR), and "
            "for comparison what the model saw before the chunk:"
        )
        parts.append(table(FRAMES_HEADER, frames))
    parts += [_tasks_of(family) for family in _families(exams)]
    return "\n\n".join(parts)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; bars in cells are escaped, and a column without any text is left out."""
    kept = [column for column, _ in enumerate(header) if any(row[column] for row in rows)]
    lines = [[header[column] for column in kept], ["---"] * len(kept)]
    lines += [[row[column].replace("|", r"\|") for column in kept] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def solved(score: PlayedScore) -> str:
    """Return `47 of 50`, and how many were asked for where some have no result yet."""
    missing = f" (of {score.episodes})" if score.missing else ""
    return f"{score.successes} of {score.done}{missing}"


def _suite_row(exam: Exam, *, seeds: str, folder: str) -> tuple[str, ...]:
    score = exam.score
    steps = NOTHING
    if score.solved_steps:
        low, high = score.solved_steps[0], score.solved_steps[-1]
        steps = f"{number(score.mean_success_steps)} ({low}{DASH}{high})"
    return (
        *(exam.suite, exam.options, folder, seeds, solved(score), percent(score.success_rate)),
        *(interval(score.success_interval), steps),
    )


def _frames_row(exam: Exam) -> tuple[str, ...] | None:
    """Return None where nothing was expected that could be compared."""
    rows = [row for _, row in exam.entry.rows() if row.suite == exam.suite]
    told = [row for row in rows if row.expected_db is not None]
    expected = mean(row.expected_db for row in told if row.expected_db is not None)
    copied = mean(row.copied_db for row in told if row.copied_db is not None)
    if expected is None:
        return None
    return exam.suite, exam.options, str(len(told)), number(expected), number(copied)


def _families(exams: Sequence[Exam]) -> Iterator[list[Exam]]:
    """Yield the exams of one suite and of its variants together, the plain suite first."""
    variants = {
        suite.name: suite.variant_of
        for plugin in installed_platforms()
        for suite in plugin.suites
        if suite.variant_of
    }
    families: dict[str, list[Exam]] = {}
    for exam in exams:
        families.setdefault(variants.get(exam.suite, exam.suite), []).append(exam)
    for name, family in families.items():
        yield sorted(family, key=lambda exam: (exam.suite != name, exam.options != ""))


def _tasks_of(family: Sequence[Exam]) -> str:
    first, *others = family
    header = [*TASK_HEADER, *(_label(other, first) for other in others)]
    rows = [
        [*_task_cells(task), *(_cell(other, task.task) for other in others)]
        for task in first.score.tasks
    ]
    rows.append(
        [
            *("all", "", solved(first.score), interval(first.score.success_interval)),
            number(first.score.mean_success_steps),
            *(solved(other.score) for other in others),
        ]
    )
    title = first.suite + (f", {first.options}" if first.options else "")
    return f"{title}, by task:\n\n{table(header, rows)}"


def _task_cells(task: TaskScore) -> tuple[str, ...]:
    sentence = task.instructions[0] if task.instructions else task.name
    return (
        *(str(task.task), sentence, solved(task), interval(task.success_interval)),
        number(task.mean_success_steps),
    )


def _label(other: Exam, first: Exam) -> str:
    words = [other.suite] if other.suite != first.suite else []
    words += [other.options] if other.options != first.options else []
    # What differs only in when it was played is told by its folder.
    return ", ".join(words) or other.entry.first.name


def _cell(exam: Exam, task: int) -> str:
    found = next((one for one in exam.score.tasks if one.task == task), None)
    return NOTHING if found is None else solved(found)


def played_with(entries: Sequence[Entry]) -> str:
    """Return in a line what all `entries` share: weights, seeds, renderer, version."""
    deciding = [entry.setup.deciding for entry in entries]
    seeds = {exam.seeds for exam in exams_of(entries)}
    facts = {
        "weights": _shared(deciding, "worker.meta.provenance.weights_sha256")[:12],
        "seeds": seeds.pop() if len(seeds) == 1 else "",
        "rpent-box": _shared(deciding, "worker.rpent_box"),
        "drawn by": _shared(deciding, "simulator.renderer"),
    }
    return "; ".join(f"{name} {text}" for name, text in facts.items() if text)


def _shared(setups: Sequence[dict[str, str]], path: str) -> str:
    values = {setup.get(path, "") for setup in setups}
    return values.pop() if len(values) == 1 else ""
