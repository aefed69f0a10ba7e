# SPDX-License-Identifier: Apache-2.0
"""The recipe of mini-wam: what decides it, and the stages that follow from that.

generate ─▶ round-0 ─▶ train ─▶ export ─▶ student
               │                             │ acts, the experts label
               │       round-1 ◀─ generate ──┘
               └──────────┴─▶ train ─▶ export ─▶ final
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from rpent_box.cli.mini_exams import SUITES
from rpent_box.cli.mini_stages import THREADS, export_stage, generate_stage, train_stage
from rpent_box.errors import OutputError, UsageError
from rpent_box.evaluate.scale.differences import differences, in_lines
from rpent_box.evaluate.stages.stage import Stage
from rpent_box.sim.results import write_atomically

RECIPE_FILE = "recipe.json"


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides what is made. The built-in weights were made with its defaults."""

    lessons: tuple[str, ...] = SUITES
    episodes: int = 22
    """Of each lesson, by the expert."""
    student_episodes: int = 12
    """Of each lesson, by the student."""
    student_steps: int = 3000
    steps: int = 12000
    begin_with_student: bool = True
    """Whether the last training begins with the student's weights."""
    seed: int = 1
    """Of round 0; round 1 has the next one."""
    training_seed: int = 0
    threads: int = THREADS


DEFAULTS = Recipe()


def plan(
    recipe: Recipe, out: Path, *, teacher: str, trainer: str, workers: int | None
) -> Iterator[Stage]:
    """Yield the stages that make a checkpoint, in order; `teacher` and `trainer` are Pythons."""
    rounds = [str(out / "round-0"), str(out / "round-1")]
    student, final, frames = str(out / "student"), str(out / "final"), str(out / "frames")
    yield generate_stage(
        teacher,
        out=rounds[0],
        lessons=recipe.lessons,
        episodes=recipe.episodes,
        seed=recipe.seed,
        workers=workers,
        student=None,
    )
    yield train_stage(
        trainer,
        data=rounds[:1],
        out=student,
        steps=recipe.student_steps,
        seed=recipe.training_seed,
        threads=recipe.threads,
        frames=frames,
    )
    yield export_stage(trainer, training=student, out=checkpoint_of(student))
    yield generate_stage(
        teacher,
        out=rounds[1],
        lessons=recipe.lessons,
        episodes=recipe.student_episodes,
        seed=recipe.seed + 1,
        workers=workers,
        student=checkpoint_of(student),
    )
    yield train_stage(
        trainer,
        data=rounds,
        out=final,
        steps=recipe.steps,
        seed=recipe.training_seed,
        threads=recipe.threads,
        begin_with=student if recipe.begin_with_student else None,
        frames=frames,
    )
    yield export_stage(trainer, training=final, out=checkpoint_of(final))


def checkpoint_of(training: str | Path) -> str:
    """Return where the checkpoint of a training lies."""
    return str(Path(training) / "checkpoint")


def require_recipe(out: Path, recipe: Recipe) -> bool:
    """Return whether `recipe` was begun in `out`. Raises `UsageError` where another one was."""
    path = out / RECIPE_FILE
    try:
        known = msgspec.json.decode(path.read_bytes(), type=Recipe)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} is not a recipe: {error}") from error
    if found := differences("recipe", known, recipe):
        raise UsageError(
            f"another recipe was begun in {out}:\n{in_lines(found)}",
            hint="Choose another folder: --out FOLDER, or give the options of the first time.",
        )
    return True


def settle_recipe(out: Path, recipe: Recipe) -> None:
    """Write the recipe into a new folder. Raises as `require_recipe` does."""
    if not require_recipe(out, recipe):
        data = msgspec.json.format(msgspec.json.encode(recipe), indent=2) + b"\n"
        write_atomically(out / RECIPE_FILE, data)
