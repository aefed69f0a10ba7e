# SPDX-License-Identifier: Apache-2.0
"""The programs behind `rpent-box mini`, and the words that they are given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rpent_box.cli.mini_exams import BACKEND
from rpent_box.cli.mini_sentences import TRIALS_FILE
from rpent_box.evaluate.stages.stage import Stage

TEACHING = "rpent_box_libero.teaching"
TRAINING = "rpent_box.backends.mini_wam"
"""Packages whose programs are run, by name: this process imports neither PyTorch nor a simulator.
"""

THREADS = 2
"""Of a training. Sums of other numbers of them round otherwise, so it is no matter of the machine.
"""


def generate_stage(
    python: str,
    *,
    out: str,
    lessons: Sequence[str],
    episodes: int,
    seed: int,
    workers: int | None,
    student: str | None,
    more: Sequence[str] = (),
) -> Stage:
    """Return what makes demonstrations; `student` is a checkpoint that acts in most of them.

    `more` are words for the program itself.
    """
    folder = absolute(out)
    words = [f"--out={folder}", "--lessons", *lessons, f"--seed={seed}", f"--episodes={episodes}"]
    if student is not None:
        words += [f"--student={BACKEND}", f"--checkpoint={absolute(student)}"]
    return Stage(
        name="generate",
        title="the expert acts" if student is None else "the student acts, the expert labels",
        python=python,
        module=f"{TEACHING}.generate",
        arguments=(*words, *more),
        how=(f"--workers={workers or cores()}", "--json-progress"),
        folder=folder,
    )


def train_stage(
    python: str,
    *,
    data: Sequence[str],
    out: str,
    steps: int,
    seed: int,
    threads: int,
    begin_with: str | None = None,
    frames: str | None = None,
) -> Stage:
    """Return what trains on the demonstrations in `data`.

    `begin_with` is another training, whose weights it begins with; `frames` a folder for decoded
    frames, which several trainings may share.
    """
    folder = absolute(out)
    words = ["--data", *(absolute(one) for one in data), f"--out={folder}"]
    words += [f"--seed={seed}", f"--steps={steps}"]
    if begin_with is not None:
        words.append(f"--init={absolute(begin_with)}")
    cache = () if frames is None else (f"--cache={absolute(frames)}",)
    return Stage(
        name="train",
        title="train",
        python=python,
        module=f"{TRAINING}.train",
        arguments=(*words, f"--threads={threads}"),
        how=cache,
        folder=folder,
        threads=threads,
    )


def export_stage(python: str, *, training: str, out: str) -> Stage:
    """Return what makes a checkpoint of a finished training."""
    return Stage(
        name="export",
        title="export",
        python=python,
        module=f"{TRAINING}.export",
        arguments=(f"--training={absolute(training)}", f"--out={absolute(out)}"),
        folder=absolute(training),
    )


def sentences_stage(
    python: str,
    *,
    folder: str,
    checkpoint: str | None,
    suite: str,
    tasks: Sequence[int | str],
    episodes: int,
    seed: int,
    workers: int | None,
) -> Stage:
    """Return what tries another task's sentence in each scene where its target stands too."""
    words = [f"--out={Path(folder) / TRIALS_FILE}", f"--backend={BACKEND}", f"--suite={suite}"]
    if checkpoint is not None:
        words.append(f"--checkpoint={absolute(checkpoint)}")
    if tasks:
        words.append(f"--tasks={tasks_in_words(tasks)}")
    words += [f"--episodes={episodes}", f"--seed={seed}"]
    return Stage(
        name="sentences",
        title="another task's sentence",
        python=python,
        module=f"{TEACHING}.controls",
        arguments=tuple(words),
        how=(f"--workers={workers or cores()}",),
        folder=folder,
    )


def tasks_in_words(tasks: Sequence[int | str]) -> str:
    """Return tasks as the program that tries sentences reads them."""
    return ",".join(map(str, tasks)) or "all"


def absolute(path: str) -> str:
    """Return `path` as a stage finds it from another working directory."""
    return str(Path(path).expanduser().absolute())


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
