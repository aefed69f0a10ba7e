# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini card`: the tables of a model card, from what was played for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from msgspec import Struct

from rpent_box.cli import flags
from rpent_box.cli.border import border
from rpent_box.cli.mini_exams import TRIALS_FILE, Sentence, read_sentences
from rpent_box.errors import BadOption, OutputError
from rpent_box.evaluate.scale.manifest import EVAL_FILE
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.report.load import Entry, load_folder
from rpent_box.report.markdown import played_with, table, tables_of
from rpent_box.report.words import interval
from rpent_box.sim.lines import read_lines
from rpent_box.sim.results import write_atomically

BEGIN, END = "<!-- scores -->", "<!-- /scores -->"
SENTENCES_HEADER = (
    *("scene of task", "sentence of task", "attempts", "lifted the named one first"),
    *("the scene's own", "another", "nothing", "placed the named one", "placed the scene's own"),
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


class Model(Struct, frozen=True, kw_only=True):
    """Of an attempt, whose it is."""

    model: str
    """The backend and the hash of its weights."""


def card_of(folders: Sequence[Path]) -> str:
    """Return the tables. Raises `BadOption` for folders of several weights, or of nothing."""
    evaluations = list(_holding(folders, EVAL_FILE))
    attempts = list(_holding(folders, TRIALS_FILE))
    if not evaluations:
        raise BadOption(
            f"there is no evaluation in {', '.join(map(str, folders))}",
            hint="Score a checkpoint: rpent-box mini evaluate --out FOLDER",
        )
    entries = [Entry(folders=(load_folder(folder),)) for folder in evaluations]
    _require_one_model(entries, attempts)
    parts = [f"Measured with {played_with(entries)}.", tables_of(entries)]
    sentences = [one for folder in attempts for one in read_sentences(folder)]
    if sentences:
        parts.append("Another task's sentence, whose bowl stands in the scene too:")
        parts.append(sentences_table(sentences))
    return "\n\n".join(parts)


def sentences_table(sentences: Sequence[Sentence]) -> str:
    """Return a row for each scene and sentence, and one for all of them."""
    rows = [(str(one.task), str(one.says), *_counts([one])) for one in sentences]
    if len(rows) > 1:
        rows.append(("all", "", *_counts(sentences)))
    text = table(SENTENCES_HEADER, rows)
    attempts = sum(one.attempts for one in sentences)
    named = sum(one.lifted.get("named", 0) for one in sentences)
    bounds = interval(wilson_interval(named, attempts))
    return f"{text}\n\nThe named one was lifted first in {named} of {attempts} (95%: {bounds})."


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
    def count(name: str, words: Sequence[str]) -> str:
        return str(sum(getattr(one, name).get(word, 0) for one in sentences for word in words))

    return (
        str(sum(one.attempts for one in sentences)),
        *(count("lifted", words) for words in (["named"], ["own"], ["other", "both"], ["none"])),
        *(count("reached", [word]) for word in ("named", "own")),
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


def _require_one_model(entries: Sequence[Entry], attempts: Sequence[Path]) -> None:
    """Refuse to put scores of several weights into one card."""
    weights: dict[str, str] = {}
    for entry in entries:
        hashed = entry.setup.deciding.get("worker.meta.provenance.weights_sha256", "unknown")
        weights.setdefault(hashed, str(entry.first.path))
    for folder in attempts:
        for one in read_lines(folder / TRIALS_FILE, Model, what="an attempt"):
            weights.setdefault(one.model.split()[-1], str(folder))
    if len(weights) > 1:
        listed = ", ".join(f"{hashed[:12]} in {where}" for hashed, where in weights.items())
        raise BadOption(
            f"these were played with different weights: {listed}",
            hint="Give the folders of one checkpoint.",
        )
