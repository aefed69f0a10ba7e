# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini all`: the whole recipe, from nothing to a checkpoint with its scores."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
from msgspec import Struct
from msgspec.structs import replace

from rpent_box.cli import eval_flags, eval_words, flags, mini_flags
from rpent_box.cli.asked import command_given
from rpent_box.cli.border import NOT_COMPLETED, border, print_json
from rpent_box.cli.mini_evaluate import (
    CONTROL_EPISODES,
    EPISODES,
    PRO_EPISODES,
    Asked,
    check,
    score,
    sentences_asked,
)
from rpent_box.cli.mini_exams import SCORES_FILE, Marks, Scores, read_parts
from rpent_box.cli.mini_lessons import require_lessons
from rpent_box.cli.mini_pythons import simulator_python, training_python
from rpent_box.cli.mini_recipe import (
    DEFAULTS,
    Recipe,
    checkpoint_of,
    plan,
    require_recipe,
    settle_recipe,
)
from rpent_box.cli.mini_stages import absolute
from rpent_box.cli.mini_work import STAGE_HOURS, Work
from rpent_box.cli.progress import speaker
from rpent_box.cli.show_mini import render_scores
from rpent_box.cli.tables import render_table, seconds
from rpent_box.evaluate.stages.record import read_stage_file
from rpent_box.evaluate.stages.stage import Stage
from rpent_box.evaluate.stages.writer import only_writer


class Cost(Struct, frozen=True, kw_only=True):
    """What a stage took, in all its sittings."""

    made: str
    """Which folder."""
    by: str
    wall_s: float
    sittings: int


class Making(Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    out: str
    checkpoint: str
    recipe: Recipe
    costs: tuple[Cost, ...]
    scores: Scores | None


def all_(
    out: mini_flags.OutOfAll,
    lesson: mini_flags.Lessons = None,
    episodes: mini_flags.Demonstrations = DEFAULTS.episodes,
    student_episodes: mini_flags.StudentEpisodes = DEFAULTS.student_episodes,
    student_steps: mini_flags.StudentSteps = DEFAULTS.student_steps,
    steps: mini_flags.Steps = DEFAULTS.steps,
    begin_with_student: mini_flags.BeginWithStudent = DEFAULTS.begin_with_student,
    seed: mini_flags.SeedOfRounds = DEFAULTS.seed,
    training_seed: mini_flags.TrainingSeed = DEFAULTS.training_seed,
    threads: mini_flags.Threads = DEFAULTS.threads,
    workers: mini_flags.Workers = None,
    score_it: mini_flags.Score = True,
    part: mini_flags.Parts = None,
    simulator_python_: mini_flags.SimulatorPython = None,
    python: mini_flags.TrainingPython = None,
    build: mini_flags.Build = False,
    envs: eval_flags.Envs = eval_words.AUTO,
    launcher: flags.Launcher = "auto",
    timeout: mini_flags.Timeout = STAGE_HOURS,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
) -> None:
    """Make mini-wam from nothing: two rounds of demonstrations, a student, the model, its scores.

    The same command goes on where it was stopped.
    """
    with border(verbose=verbose, as_json=as_json):
        folder = Path(absolute(out))
        recipe = Recipe(
            lessons=eval_words.names("--lesson", lesson) or DEFAULTS.lessons,
            episodes=episodes,
            student_episodes=student_episodes,
            student_steps=student_steps,
            steps=steps,
            begin_with_student=begin_with_student,
            seed=seed,
            training_seed=training_seed,
            threads=threads,
        )
        require_recipe(folder, recipe)
        asked = Asked(
            out=folder / "scores",
            checkpoint=checkpoint_of(folder / "final"),
            marks=_marks(recipe, eval_words.names("--part", part)),
            envs=eval_words.envs(envs),
            launcher=launcher,
            simulator_python=simulator_python_,
            build=build,
            quiet=quiet,
        )
        # What can be known to be wrong is known before hours of work, and before the recipe is
        # written down: in a folder that has one, no other can be made.
        if score_it:
            asked = _checked(asked)
        stages = _stages(recipe, folder, asked, python=python, workers=workers)
        work = Work.here(os.environ, quiet=quiet, hours=timeout, command=command_given())
        with only_writer(folder):
            settle_recipe(folder, recipe)
            for stage in stages:
                if not read_stage_file(stage.record).is_complete(stage):
                    work.run(stage)
            scored = score(asked, os.environ) if score_it else None
        scores = scored.scores if scored is not None else None
        made = Making(
            out=str(folder),
            checkpoint=checkpoint_of(folder / "final"),
            recipe=recipe,
            costs=(*_costs_of(stages), *_costs_of_scores(scores, asked)),
            scores=scores,
        )
        _show(made, as_json=as_json)
        if scored is not None and not scored.is_complete:
            raise typer.Exit(NOT_COMPLETED)


def _checked(asked: Asked) -> Asked:
    """Return `asked` as `check` does, though its checkpoint is not made yet."""
    checked = check(replace(asked, checkpoint=None), os.environ)
    return replace(checked, checkpoint=asked.checkpoint)


def _stages(
    recipe: Recipe, folder: Path, asked: Asked, *, python: str | None, workers: int | None
) -> list[Stage]:
    """Return what makes the checkpoint, in Pythons that have what it needs.

    Raises `LaunchError` for a Python without that, `UnknownName` for a lesson that there is not.
    """
    say = speaker(quiet=asked.quiet)
    trainer = training_python(python, environ=os.environ)
    teacher = simulator_python(
        asked.simulator_python, build=asked.build, say=say, environ=os.environ
    )
    require_lessons(teacher, recipe.lessons, os.environ)
    return list(plan(recipe, folder, teacher=teacher, trainer=trainer, workers=workers))


def _costs_of(stages: Sequence[Stage]) -> Iterator[Cost]:
    """Yield what each stage took, by its record. Raises `OutputError`."""
    for stage in stages:
        record = read_stage_file(stage.record)
        yield Cost(
            made=Path(stage.folder).name,
            by=stage.title,
            wall_s=round(record.wall_s, 1),
            sittings=len(record.sittings),
        )


def _costs_of_scores(scores: Scores | None, asked: Asked) -> Iterator[Cost]:
    if scores is not None and "sentences" in asked.marks.parts:
        yield from _costs_of([sentences_asked(asked, python="")])
    for exam in scores.exams if scores is not None else ():
        wall_s, sittings = exam.summary.wall_s, exam.summary.sittings
        yield Cost(made=exam.name, by="evaluate", wall_s=round(wall_s, 1), sittings=sittings)


def _marks(recipe: Recipe, parts: Sequence[str]) -> Marks:
    suites = tuple(dict.fromkeys(lesson.split("-")[0] for lesson in recipe.lessons))
    return Marks(
        parts=read_parts(parts),
        parts_are_named=bool(parts),
        suites=suites,
        control_suite=suites[0],
        episodes=EPISODES,
        control_episodes=CONTROL_EPISODES,
        pro_episodes=PRO_EPISODES,
    )


def _show(made: Making, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    if made.scores is not None:
        path = str(Path(made.out) / "scores" / SCORES_FILE)
        sys.stdout.write(render_scores(made.scores, path))
    rows = [(one.made, one.by, seconds(one.wall_s), str(one.sittings)) for one in made.costs]
    whole = sum(one.wall_s for one in made.costs)
    rows.append(("all", "", seconds(whole), ""))
    sys.stdout.write("\n" + render_table(("made", "by", "took", "sittings"), rows))
    sys.stdout.write(f"\ncheckpoint {made.checkpoint}\n")
