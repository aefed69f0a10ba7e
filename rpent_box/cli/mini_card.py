# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini card`: the tables of a model card, from what was played for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from rpent_box.cli import flags
from rpent_box.cli.border import border
from rpent_box.cli.mini_sentences import (
    TRIALS_FILE,
    Sentence,
    Trial,
    TrialKey,
    by_suite,
    read_trials,
    sentences_of,
)
from rpent_box.errors import BadOption, OutputError
from rpent_box.evaluate.scale.manifest import EVAL_FILE, read_eval_manifest
from rpent_box.evaluate.scale.plan import JobKey, key_of
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.report.load import Entry, in_words, load_entries
from rpent_box.report.markdown import exams_of, played_with, table, tables_of
from rpent_box.report.words import interval, ranges
from rpent_box.sim.results import write_atomically

BEGIN, END = "<!-- scores -->", "<!-- /scores -->"
SENTENCES_HEADER = (
    *("suite", "scene of task", "sentence of task", "sentence", "attempts"),
    *("lifted the named one first", "95%", "the scene's own", "one that is both", "another"),
    *("nothing", "placed the named one", "placed the scene's own"),
)

Folders: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        help="Folders of evaluations and of attempts with other sentences, or folders that hold "
        "some, such as that of rpent-box mini evaluate.",
        metavar="FOLDER...",
        show_default=False,
    ),
]
Into: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--into",
        help=f"Card that gets the tables, between {BEGIN} and {END}.",
        metavar="FILE",
        show_default="printed only",
        rich_help_panel=flags.OUTPUT,
    ),
]


def card(folders: Folders, into: Into = None, verbose: flags.Verbose = False) -> None:
    """Print the tables of a model card: scores by suite and task, and the controls."""
    with border(verbose=verbose):
        text = card_of([Path(folder).expanduser().absolute() for folder in folders])
        if into is None:
            sys.stdout.write(f"{text}\n")
        else:
            put_into(Path(into), text)


def card_of(folders: Sequence[Path]) -> str:
    """Return the tables. Raises `BadOption` for folders of several weights, or of nothing."""
    evaluations = list(_holding(folders, EVAL_FILE))
    attempts = list(_holding(folders, TRIALS_FILE))
    if not evaluations:
        raise BadOption(
            f"there is no evaluation in {', '.join(map(str, folders))}",
            hint="Score a checkpoint: rpent-box mini evaluate --out FOLDER",
        )
    entries = _entries(evaluations)
    trials = _trials(attempts)
    _require_one_model(entries, trials)
    _require_each_episode_once(entries)
    parts = [f"Measured with {played_with(entries)}.", tables_of(entries)]
    if trials:
        parts.append(
            "Another task's sentence, whose thing stands in the scene too, from the recorded "
            f"initial states ({_seeds(trials.values())}):"
        )
        parts.append(sentences_table(sentences_of(trials.values())))
    return "\n\n".join(parts)


def sentences_table(sentences: Sequence[Sentence]) -> str:
    """Return a row for each scene and sentence, and one for all of each suite."""
    rows: list[tuple[str, ...]] = []
    for suite, its in by_suite(sentences).items():
        rows += [
            (suite, str(one.task), str(one.says), one.instruction, *_counts([one])) for one in its
        ]
        rows.append((suite, "all", "", "", *_counts(its)))
    return table(SENTENCES_HEADER, rows)


def _seeds(trials: Collection[Trial]) -> str:
    """Return `seeds 7`; of each suite by itself where they differ."""
    suites: dict[str, set[int]] = {}
    for trial in trials:
        suites.setdefault(trial.suite, set()).add(trial.seed)
    words = {suite: f"seeds {ranges(seeds)}" for suite, seeds in suites.items()}
    if len({*words.values()}) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{suite}: {seeds}" for suite, seeds in words.items())


def put_into(path: Path, text: str) -> None:
    """Replace what is between the marks in the file at `path`. Raises `OutputError`."""
    try:
        card = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from error
    before, begin, rest = card.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise OutputError(
            f"{path} has no place for scores",
            hint=f"Put {BEGIN} and {END} into it, each on a line of its own.",
        )
    write_atomically(path, f"{before}{begin}\n\n{text}\n\n{end}{after}".encode())


def _counts(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    def count(name: str, word: str) -> int:
        return sum(getattr(one, name).get(word, 0) for one in sentences)

    attempts = sum(one.attempts for one in sentences)
    named = count("lifted", "named")
    both = count("lifted", "both")
    return (
        *(str(attempts), str(named), interval(wilson_interval(named, attempts))),
        # Few suites have such things: without one, the column is left out.
        *(str(count("lifted", "own")), str(both or "")),
        *(str(count("lifted", word)) for word in ("other", "none")),
        *(str(count("reached", word)) for word in ("named", "own")),
    )


def _holding(folders: Sequence[Path], name: str) -> Iterator[Path]:
    """Yield the folders with a file `name`, among `folders` and below, each once, by name."""
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise BadOption(f"there is no folder {folder}")
        for place, below, files in os.walk(folder):
            below.sort()
            if name in files:
                found[Path(place)] = None
    yield from found


def _entries(folders: Sequence[Path]) -> list[Entry]:
    """Return what was played in `folders`, put together where it is one result."""
    platforms: dict[str, list[Path]] = {}
    for folder in folders:
        platforms.setdefault(read_eval_manifest(folder).plan.platform, []).append(folder)
    return [entry for its in platforms.values() for entry in load_entries(its)]


def _trials(folders: Sequence[Path]) -> dict[TrialKey, Trial]:
    """Return all attempts. Raises `BadOption` for one that lies in two folders."""
    trials: dict[TrialKey, Trial] = {}
    places: dict[TrialKey, Path] = {}
    for folder in folders:
        for trial in read_trials(folder):
            if trial.key in places:
                raise _twice(str(trial.key), places[trial.key], folder)
            trials[trial.key], places[trial.key] = trial, folder
    return trials


def _require_each_episode_once(entries: Sequence[Entry]) -> None:
    """Refuse an episode that was played twice with the same options: a copy, or another machine."""
    places: dict[tuple[str, JobKey], Path] = {}
    for exam in exams_of(entries):
        for folder, row in exam.entry.rows():
            if row.suite != exam.suite:
                continue
            place = places.setdefault((exam.options, key_of(row)), folder.path)
            if place != folder.path:
                raise _twice(in_words(key_of(row)), place, folder.path)


def _twice(what: str, one: Path, other: Path) -> BadOption:
    return BadOption(
        f"{what} was played in {one} and in {other}; a card counts each once",
        hint="Give one of the two.",
    )


def _require_one_model(entries: Sequence[Entry], trials: Mapping[TrialKey, Trial]) -> None:
    """Refuse to put scores of several weights into one card."""
    weights: dict[str, str] = {}
    for entry in entries:
        hashed = entry.setup.deciding.get("worker.meta.provenance.weights_sha256", "unknown")
        weights.setdefault(hashed, f"in {entry.first.path}")
    for trial in trials.values():
        weights.setdefault(trial.model.split()[-1], f"for {trial.key}")
    if len(weights) > 1:
        listed = "; ".join(f"{hashed[:12]} {where}" for hashed, where in weights.items())
        raise BadOption(
            f"these were played with different weights: {listed}",
            hint="Give the folders of one checkpoint.",
        )
