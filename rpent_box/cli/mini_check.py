# SPDX-License-Identifier: Apache-2.0
"""What can be known to be wrong with a scoring before anything is made or played for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from rpent_box.cli.mini_exams import PLATFORM, Exam, Marks, Part, exams
from rpent_box.cli.mini_sentences import read_trials, sentences_folder
from rpent_box.errors import UnknownName, UsageError
from rpent_box.evaluate.scale.config import EvalConfig


def check_marks(
    marks: Marks,
    base: EvalConfig,
    out: Path,
    *,
    require_sentences: Callable[[], None],
    say: Callable[[str], None],
) -> Marks:
    """Return `marks` as far as their control suite has something for them.

    A part that it has nothing for is left out, which is said, unless it was named. `base` is what
    exams are played with, `out` where earlier ones lie; `require_sentences` raises `UnknownName`
    where no other sentence can be said. Raises `UsageError` and its kinds, and what that raises.
    """
    _check_exams(_always(marks, base), out)
    parts = list(marks.parts)
    if "pro" in parts:
        of_pro = replace(marks, parts=("pro",))
        _keep("pro", parts, marks, lambda: _check_exams(exams(of_pro, base), out), say)
    if "sentences" in parts:
        _check_seed(out, marks.control_suite, base.seeds)
        _keep("sentences", parts, marks, require_sentences, say)
    return replace(marks, parts=tuple(parts))


def _always(marks: Marks, base: EvalConfig) -> Iterator[Exam]:
    """Yield the exams that each suite has, and one for attempts with other sentences."""
    yield from exams(replace(marks, parts=tuple(one for one in marks.parts if one != "pro")), base)
    suite, controls = marks.control_suite, {*marks.parts} - {"suites"}
    if controls:
        episodes = 1 if controls == {"pro"} else marks.control_episodes
        config = replace(base, platform=PLATFORM, suites=(suite,), episodes=episodes)
        yield Exam(name="", part="sentences", config=config)


def _check_exams(asked: Iterable[Exam], out: Path) -> None:
    # Late: it reaches what boxes need, which `--help` should not wait for.
    from rpent_box.evaluate.scale.checking import check_evaluation
    from rpent_box.evaluate.scale.kept import find_kept
    from rpent_box.evaluate.scale.manifest import read_eval_manifest
    from rpent_box.evaluate.scale.record import require_plan

    for exam in asked:
        plan = check_evaluation(exam.config).plan
        begun = find_kept(out / exam.name) if exam.name else None
        if begun is None:
            continue
        earlier = read_eval_manifest(begun).plan
        if exam.config.checkpoint is None:
            # Built in, or not made yet. Its files are compared where they are read.
            plan = replace(plan, checkpoint=earlier.checkpoint)
        require_plan(begun, earlier, plan)


def _check_seed(out: Path, suite: str, seeds: tuple[int, ...]) -> None:
    folder = sentences_folder(out, suite)
    others = {trial.seed for trial in read_trials(folder)} - {*seeds}
    if others:
        raise UsageError(
            f"{folder} holds attempts with seed {min(others)}; this is seed {seeds[0]}",
            hint="Choose another folder: --out FOLDER, or give the seed of the first time.",
        )


def _keep(
    part: Part,
    parts: list[Part],
    marks: Marks,
    check: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Leave `part` out where there is nothing for it, and it was not named."""
    try:
        check()
    except UnknownName as error:
        if marks.parts_are_named:
            raise
        parts.remove(part)
        say(f"{part}: left out: {error.message}" + (f". {error.hint}" if error.hint else ""))
