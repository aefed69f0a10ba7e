# SPDX-License-Identifier: Apache-2.0
"""Attempts with another task's sentence: read, told apart, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from rpent_box.errors import OutputError
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.sim.lines import read_lines

TRIALS_FILE = "trials.jsonl"


class TrialKey(NamedTuple):
    """What tells an attempt from all others of the same weights."""

    suite: str
    task: int
    """Whose scene."""
    says: int
    """Whose sentence."""
    init_state: int
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.suite}, scene {self.task} with the sentence of {self.says}, "
            f"init state {self.init_state}, seed {self.seed}"
        )


class Trial(Struct, frozen=True, kw_only=True):
    """Of one attempt, what is counted, and what it is told apart by."""

    suite: str
    task: int
    says: int
    init_state: int
    seed: int
    model: str
    """The backend and the hash of its weights."""
    instruction: str
    lifted: str
    """Whose the first lifted thing was: `named` by the sentence, the scene's `own`, …"""
    reached: str
    """Whose goal held first."""

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.suite, self.task, self.says, self.init_state, self.seed)


class Sentence(Struct, frozen=True, kw_only=True):
    """How attempts with another task's sentence went in one scene."""

    suite: str
    task: int
    """Whose scene."""
    says: int
    """Whose sentence."""
    instruction: str
    attempts: int
    lifted: dict[str, int]
    reached: dict[str, int]
    named_interval: tuple[float, float]
    """95 % Wilson interval of how often the named thing was lifted first."""


def sentences_folder(out: Path, suite: str) -> Path:
    """Return where the attempts with other tasks' sentences are kept."""
    return out / f"{suite}-sentences"


def read_trials(folder: Path) -> list[Trial]:
    """Return the attempts in `folder`, none where there is no file of them.

    Raises `OutputError` for a file that cannot be read, or that holds an attempt twice.
    """
    path = folder / TRIALS_FILE
    trials = read_lines(path, Trial, what="an attempt") if path.exists() else []
    seen: set[TrialKey] = set()
    for trial in trials:
        if trial.key in seen:
            raise OutputError(
                f"{path} holds an attempt twice: {trial.key}",
                hint="Remove the lines that are not to be counted.",
            )
        seen.add(trial.key)
    return trials


def sentences_of(trials: Iterable[Trial]) -> tuple[Sentence, ...]:
    """Return how attempts went, by suite, scene and sentence."""
    pairs: dict[tuple[str, int, int], list[Trial]] = {}
    for trial in trials:
        pairs.setdefault((trial.suite, trial.task, trial.says), []).append(trial)
    return tuple(_sentence(pairs[key]) for key in sorted(pairs))


def by_suite(sentences: Iterable[Sentence]) -> dict[str, list[Sentence]]:
    """Return suite → its sentences."""
    suites: dict[str, list[Sentence]] = {}
    for one in sentences:
        suites.setdefault(one.suite, []).append(one)
    return suites


def _sentence(trials: Sequence[Trial]) -> Sentence:
    first = trials[0]
    lifted = Counter(trial.lifted for trial in trials)
    return Sentence(
        suite=first.suite,
        task=first.task,
        says=first.says,
        instruction=first.instruction,
        attempts=len(trials),
        lifted=dict(lifted),
        reached=dict(Counter(trial.reached for trial in trials)),
        named_interval=wilson_interval(lifted["named"], len(trials)),
    )
