# SPDX-License-Identifier: Apache-2.0
"""A report and a comparison as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rpent_box.cli.tables import labelled, render_table
from rpent_box.evaluate.scale.scores import Score
from rpent_box.report import words
from rpent_box.report.compare import Comparison, Side
from rpent_box.report.figures import PlayedScore, figures_of
from rpent_box.report.load import Entry
from rpent_box.report.setup import KIND_IN_WORDS, KINDS, Difference
from rpent_box.report.write import Written

WIDTH = 100
LABEL = 13
SHOWN_VALUE = 48
"""Of a longer value the beginning is shown; `--json` shows all of it."""


def render_written(written: Written) -> str:
    """Return what was found in short, and where the files are."""
    several = len(written.entries) > 1
    parts = [
        _entry(entry, chr(ord("A") + number) if several else "")
        for number, entry in enumerate(written.entries)
    ]
    files = {"report": written.report, "csv": written.csv, "parquet": written.parquet}
    parts.append("".join(_labelled(name, str(path)) for name, path in files.items() if path))
    return printable("\n".join(parts))


def render_comparison_text(comparison: Comparison) -> str:
    """Return the verdict, the tables behind it, and what differed in the set-up."""
    sides = _side("A", comparison.a) + _side("B", comparison.b)
    parts = [sides, _wrapped(comparison.sentence)]
    if comparison.total.pairs:
        parts += [_outcomes(comparison), _tasks(comparison), _pairs(comparison)]
    parts += [_unpaired(comparison), _differences(comparison.differences)]
    return printable("\n".join(part for part in parts if part))


def printable(text: str) -> str:
    """Return `text` without what a terminal would obey: it comes from files of other people."""
    return "".join(
        one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text
    )


def _entry(entry: Entry, letter: str) -> str:
    found = figures_of(entry)
    head = f"{letter}  " if letter else ""
    names = ", ".join(folder.name for folder in entry.folders)
    rows = [(suite.suite, *_score(suite)) for suite in found.suites]
    if len(rows) > 1:
        rows.append(("all", *_score(found.total)))
    table = render_table(("suite", "done", "solved", "rate", "95% interval"), rows, indent="  ")
    return f"{head}{names}\n{table}{_missing(found.total)}"


def _missing(total: PlayedScore) -> str:
    """Say how many episodes the rates are not about; empty: they are about all."""
    if not total.missing:
        return ""
    has = "has" if total.missing == 1 else "have"
    return f"  {total.missing} of {total.episodes} {has} no result; rates are of the others\n"


def _score(score: Score) -> tuple[str, str, str, str]:
    return (
        f"{score.done}/{score.episodes}",
        str(score.successes),
        words.percent(score.success_rate),
        words.interval(score.success_interval) if score.done else words.NOTHING,
    )


def _side(letter: str, side: Side) -> str:
    model = f"{side.backend} ({side.checkpoint})" if side.checkpoint else side.backend
    asked = f" ({side.asked} asked for)" if side.played < side.asked else ""
    solved = f"{side.successes} of {side.played} solved{asked}"
    return f"{letter}  {model}, {solved}: {', '.join(side.runs)}\n"


def _outcomes(comparison: Comparison) -> str:
    found = comparison.total.outcomes
    rows = [
        ("A solved", str(found.both), str(found.only_a)),
        ("A did not", str(found.only_b), str(found.neither)),
    ]
    return render_table(("", "B solved", "B did not"), rows)


def _tasks(comparison: Comparison) -> str:
    rows = [
        (
            f"{task.suite} {task.task}",
            str(task.pairs),
            words.percent(task.rate_a),
            words.percent(task.rate_b),
            f"{words.points(task.difference):>6}",
            f"{words.points(task.interval[0]):>6} to {words.points(task.interval[1]):>6}",
            words.probability(task.p),
            words.probability(task.p_holm),
        )
        for task in comparison.tasks
    ]
    header = ("task", "pairs", "A", "B", "B - A", "95% interval", "p", "p, Holm")
    return render_table(header, rows)


def _pairs(comparison: Comparison) -> str:
    pairs, same, steps = comparison.total.pairs, comparison.same, comparison.steps
    text = _labelled("scenes", f"{same.scenes} of {pairs} pairs begin with the same frames")
    text += _labelled("actions", f"{same.actions} of {pairs} are the same, bit by bit")
    if same.contradictions:
        contradicting = words.count(same.contradictions, "pair")
        told = f"{contradicting} with equal frames and actions ended otherwise: it does not repeat"
        text += _labelled("simulator", told)
    if same.instructions < pairs:
        text += _labelled(
            "instruction", f"{pairs - same.instructions} of {pairs} pairs were told something else"
        )
    if steps.pairs:
        bounds = (
            f" (95% interval {words.signed(steps.interval[0])} to "
            f"{words.signed(steps.interval[1])})"
            if steps.interval
            else ""
        )
        text += _labelled(
            "steps",
            f"median {words.number(steps.median_a)} and {words.number(steps.median_b)} where both "
            f"solved; B - A {words.signed(steps.median_difference)}{bounds}",
        )
    return text


def _unpaired(comparison: Comparison) -> str:
    lines = [
        _labelled(f"only in {letter}", f"{task}, {states}")
        for letter, keys in (("A", comparison.only_in_a), ("B", comparison.only_in_b))
        for task, states in words.grouped(keys)
    ]
    return "".join(lines)


def _differences(found: Iterable[Difference]) -> str:
    found = list(found)
    if not found:
        return "the set-up is the same\n"
    text = ""
    for kind in KINDS:
        rows = [(one.path, _short(one.a), _short(one.b)) for one in found if one.kind == kind]
        text += render_table((KIND_IN_WORDS[kind], "A", "B"), rows)
    return text


def _short(value: str | None) -> str:
    if value is None:
        return "not said"
    flat = " ".join(value.split())
    return flat if len(flat) <= SHOWN_VALUE else flat[: SHOWN_VALUE - 1] + "…"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False) + "\n"


def _labelled(label: str, text: str) -> str:
    return labelled(label, text, width=LABEL)
