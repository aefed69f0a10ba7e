# SPDX-License-Identifier: Apache-2.0
"""Scores of mini-wam as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rpent_box.cli.mini_exams import ExamScore, Part, Scores
from rpent_box.cli.mini_sentences import Sentence, by_suite
from rpent_box.cli.show_eval import SCORE_HEADER, score_row
from rpent_box.cli.tables import labelled, render_table
from rpent_box.evaluate.statistics import wilson_interval

TITLES: dict[Part, str] = {
    "suites": "",
    "grey": "with grey frames",
    "pro": "of LIBERO-Pro",
    "sentences": "another task's sentence in the same scene",
}


def render_scores(scores: Scores, path: str) -> str:
    """Return the screen that ends `rpent-box mini evaluate`."""
    blocks = [_exam(one) for one in scores.exams]
    blocks += [_sentences(suite, its) for suite, its in by_suite(scores.sentences).items()]
    return "".join(f"\n{block}" for block in blocks) + "\n" + labelled("scores", path)


def _exam(exam: ExamScore) -> str:
    summary = exam.summary
    title = " ".join(filter(None, (", ".join(s.suite for s in summary.suites), TITLES[exam.part])))
    status = "" if summary.status == "complete" else f" ({summary.status})"
    rows = [score_row(f"{task.task}: {task.name}", task) for task in summary.tasks]
    if len(rows) > 1:
        rows.append(score_row("all", summary.total))
    return f"{title}{status}\n{render_table(SCORE_HEADER, rows)}"


def _sentences(suite: str, sentences: Sequence[Sentence]) -> str:
    header = ("scene", "says", "attempts", "went for it", "95% interval", "for its own", "else")
    rows = [_row(str(one.task), str(one.says), one.attempts, one.lifted) for one in sentences]
    total: Counter[str] = Counter()
    for one in sentences:
        total.update(one.lifted)
    rows.append(_row("all", "", sum(one.attempts for one in sentences), total))
    return f"{suite}, {TITLES['sentences']}\n{render_table(header, rows)}"


def _row(scene: str, says: str, attempts: int, lifted: dict[str, int]) -> tuple[str, ...]:
    named, own = lifted.get("named", 0), lifted.get("own", 0)
    low, high = (100 * bound for bound in wilson_interval(named, attempts))
    rate = f"{100 * named / attempts:.1f}%" if attempts else ""
    return (
        *(scene, says, str(attempts), rate, f"{low:.1f}% to {high:.1f}%"),
        *(str(own), str(attempts - named - own)),
    )
