# SPDX-License-Identifier: Apache-2.0
"""An evaluation that has ended as text: scores, errors, where the time went, how to go on."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from rpent_box.cli.eval_table import counted
from rpent_box.cli.tables import LABEL, labelled, percent, remarked, render_table, seconds
from rpent_box.contracts.messages import Figures
from rpent_box.errors import OutputError
from rpent_box.evaluate.scale.manifest import (
    EvalManifest,
    FailedAttempt,
    Place,
    read_eval_manifest,
)
from rpent_box.evaluate.scale.outcomes import read_failed
from rpent_box.evaluate.scale.scores import Score
from rpent_box.evaluate.scale.summary import EvalSummary
from rpent_box.live.picture import Picture
from rpent_box.sim.results import EpisodeRow, read_results

WIDTH = 80
SCORE_HEADER = ("task", "done", "success", "95% interval", "steps")
NAME = 34
"""Columns of a task's name."""
MOST_ERRORS = 5
LEAST_SHARE = 0.005
LEAST_S = 0.05
"""Less would be shown as nothing."""


class Ended(Struct, frozen=True, kw_only=True):
    """An evaluation that has ended, as it is on the disk."""

    summary: EvalSummary
    manifest: EvalManifest
    rows: Sequence[EpisodeRow]
    failed: Sequence[FailedAttempt]
    """The last attempt at each episode that has no result."""


def render_evaluation(ended: Ended) -> str:
    """Return the screen that ends `rpent-box eval`."""
    summary = ended.summary
    parts = [
        _heading(ended),
        _scores(summary),
        "\n",
        _outcome(summary),
        remarked(ended.rows),
        _errors(ended.failed),
        _losses(summary),
        _time(ended),
        _worker(ended.manifest),
        _files(ended),
    ]
    return "".join(parts)


def read_ended(summary: EvalSummary) -> Ended:
    """Read what the screen needs beside `summary`. Raises `OutputError`."""
    run_dir = Path(summary.run_dir)
    rows = read_results(run_dir)
    return Ended(
        summary=summary,
        manifest=read_eval_manifest(run_dir),
        rows=rows,
        failed=last_failures(read_failed(run_dir), rows),
    )


def resume_command(run_dir: str) -> str:
    """Return what goes on with the evaluation in `run_dir`."""
    return f"rpent-box eval --resume {shlex.quote(run_dir)}"


def report_command(run_dir: str) -> str:
    """Return what makes the report of the evaluation in `run_dir` anew."""
    return f"rpent-box report {shlex.quote(run_dir)}"


def what_is_kept(picture: Picture) -> str:
    """Return what to say of an evaluation that was stopped; empty where there is nothing of it.

    The disk is asked: a signal may come after an episode was written and before anyone was told.
    """
    if not picture.run_dir:
        return ""
    try:
        done = len(read_results(Path(picture.run_dir)))
    except OutputError:
        done = picture.done
    played = f"{done} of {picture.episodes} episodes are on the disk"
    return f"kept: {played}: {picture.run_dir}\nnext: {resume_command(picture.run_dir)}"


def last_failures(
    attempts: Iterable[FailedAttempt], rows: Iterable[EpisodeRow]
) -> list[FailedAttempt]:
    """Return the last attempt at each episode that has no result, by episode."""
    last = {attempt.episode: attempt for attempt in attempts}
    for row in rows:
        last.pop(row.episode, None)
    return [last[episode] for episode in sorted(last)]


def _heading(ended: Ended) -> str:
    summary, manifest = ended.summary, ended.manifest
    suites = [score.suite for score in summary.suites]
    what = suites[0] if len(suites) == 1 else counted(len(suites), "suite")
    checkpoint = f" ({manifest.worker.meta.checkpoint})" if manifest.worker else ""
    endpoint = manifest.plan.endpoint
    last = manifest.sessions[-1] if manifest.sessions else None
    where = f"borrowed at {endpoint}" if endpoint else f"by {last.launcher}" if last else ""
    seeds = ", ".join(map(str, summary.seeds))
    return (
        f"\n{summary.platform}, {what}, {counted(len(summary.tasks), 'task')}: {summary.status}\n"
        f"{summary.backend}{checkpoint}, {where}, seed{'s' * (len(summary.seeds) > 1)} {seeds}\n\n"
    )


def _scores(summary: EvalSummary) -> str:
    """Return a line per task, under its suite where there are several."""
    rows: list[tuple[str, ...]] = []
    grouped = len(summary.suites) > 1
    for suite in summary.suites:
        if grouped:
            rows.append(score_row(suite.suite, suite))
        for task in (task for task in summary.tasks if task.suite == suite.suite):
            name = "  " * grouped + f"{task.task}: {task.name}"
            rows.append(score_row(name, task))
    if len(rows) > 1:
        rows.append(score_row("all", summary.total))
    return render_table(SCORE_HEADER, rows)


def score_row(name: str, score: Score) -> tuple[str, ...]:
    """Return a line of a table under `SCORE_HEADER`."""
    return (_shortened(name), *_cells(score))


def _cells(score: Score) -> tuple[str, ...]:
    done = f"{score.done}/{score.episodes}"
    if score.success_rate is None:
        return done, "", "", ""
    low, high = (100 * bound for bound in score.success_interval)
    steps = "" if score.mean_steps is None else f"{score.mean_steps:.1f}"
    return done, f"{100 * score.success_rate:.1f}%", f"{low:.1f}% to {high:.1f}%", steps


def _outcome(summary: EvalSummary) -> str:
    total = summary.total
    if total.success_rate is None:
        return labelled("success", f"none of {total.episodes} episodes has a result")
    low, high = (100 * bound for bound in total.success_interval)
    text = labelled(
        "success",
        f"{total.successes} of {total.done}: {100 * total.success_rate:.1f}% "
        f"(95% interval {low:.1f}% to {high:.1f}%)",
    )
    if missing := total.episodes - total.done:
        has = "has" if missing == 1 else "have"
        what = f"{missing} of {total.episodes} {has} no result; the rate is of the others"
        text += labelled("missing", what)
    if total.mean_success_steps is not None:
        text += labelled("steps", f"{total.mean_success_steps:.1f} on average when solved")
    return text


def _errors(failed: Sequence[FailedAttempt]) -> str:
    if not failed:
        return ""
    has = "has" if len(failed) == 1 else "have"
    what = f"{counted(len(failed), 'episode')} ended in an error and {has} no result:"
    text = labelled("errors", what)
    for one in failed[:MOST_ERRORS]:
        which = f"episode {one.episode} ({one.suite} {one.task}, init state {one.init_state})"
        first, *_ = one.message.splitlines() or [""]
        text += labelled("", f"{which}: {first}")
    if len(failed) > MOST_ERRORS:
        text += labelled("", f"and {len(failed) - MOST_ERRORS} more, in failed.jsonl")
    return text


def _losses(summary: EvalSummary) -> str:
    text = ""
    if summary.restarts:
        times = "once" if summary.restarts == 1 else f"{summary.restarts} times"
        text += labelled(
            "again", f"{times} a simulator hung or died, and its episode was begun again"
        )
    return text


def _time(ended: Ended) -> str:
    summary = ended.summary
    went = seconds(summary.wall_s)
    if summary.sittings > 1:
        went += f" in {summary.sittings} sittings"
    if summary.episodes_per_minute is not None:
        went += (
            f": {summary.episodes_per_minute:.1f} episodes per minute on "
            f"{counted(summary.envs, 'simulator')}"
        )
    spent = _spent(ended)
    whole = sum(spent.values())
    rows = [
        (name, f"{value:.1f} s", percent(value, whole))
        for name, value in sorted(spent.items(), key=lambda item: -item[1])
        if value >= LEAST_S
    ]
    return labelled("time", went) + render_table(
        ("simulators", "seconds", "share"), rows, indent=" " * LABEL
    )


def _spent(ended: Ended) -> dict[str, float]:
    """Return what the time of all simulators together was spent on."""
    total: Counter[str] = Counter()
    for place in _places(ended.manifest):
        for name, value in place.simulators_s.items():
            total[name] += value  # type: ignore[assignment]
    return dict(total) if total else ended.summary.stages_s


def _worker(manifest: EvalManifest) -> str:
    """Return what the workers did with their time."""
    told = [place.worker for place in _places(manifest) if place.worker is not None]
    ready_s = sum(one.ready_s for one in told)
    if ready_s <= 0:
        return ""
    shares = {
        "computed": sum(one.busy_s for one in told),
        "held a batch open for company": sum(one.gathering_s for one in told),
        "had nothing to do": sum(one.idle_s for one in told),
    }
    text = ", ".join(f"{_share(value / ready_s)} {what}" for what, value in shares.items() if value)
    return labelled("worker", text) + _batches(told)


def _share(part: float) -> str:
    return percent(part, 1) if part >= LEAST_SHARE else "under 1%"


def _batches(told: Sequence[Figures]) -> str:
    inferences = sum(count for one in told for count in one.batches.values())
    if not inferences or max(one.max_batch for one in told) == 1:
        return ""
    observations = sum(size * count for one in told for size, count in one.batches.items())
    return labelled("", f"{observations / inferences:.1f} observations per inference on average")


def _files(ended: Ended) -> str:
    summary = ended.summary
    text = labelled("results", summary.run_dir)
    if summary.status != "complete":
        text += labelled("go on", resume_command(summary.run_dir))
    return text


def _places(manifest: EvalManifest) -> list[Place]:
    """Return every machine of every sitting."""
    return [place for session in manifest.sessions for place in session.places]


def _shortened(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"
