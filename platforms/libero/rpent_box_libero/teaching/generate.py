# SPDX-License-Identifier: Apache-2.0
"""Generate demonstrations as a LeRobot dataset, from fresh scenes only.

    python -m rpent_box_libero.teaching.generate --out DIR --lessons libero_spatial --episodes 60

A lesson's name stands for it, a suite's for all its lessons. Run the same command again to go on
where it was stopped, however that was: what is recorded stays, and each episode follows from
`--seed`, its lesson and its number alone, so neither the number of workers nor a stop changes it.
When the last episode is there, the folder is made a complete dataset; `--finish` makes it one of
the episodes that are there, and needs `--out` only.

With `--json-progress` each line of standard output is an object:

    {"event": "begun", "episodes": all, "recorded": already there, "workers": N}
    {"event": "episode", "number", "lesson", "solved": bool, "rows", "seconds",
     "recorded", "episodes", "solved_now", "rows_now": of this run, "elapsed_s", "eta_s"}
    {"event": "finished", "out", "episodes", "rows", "solved", "missing": episodes of the recipe}

An error is said on standard error, with exit code 1; an interrupt ends with 130.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rpent_box.errors import BadOption, OutputError, RpentBoxError, UnknownName
from rpent_box_libero.teaching.crew import (
    Crew,
    Done,
    Job,
    Setup,
    check_workers,
    record_with,
)
from rpent_box_libero.teaching.episode import Recording
from rpent_box_libero.teaching.lerobot.finish import Finished, finish_dataset, unfinish
from rpent_box_libero.teaching.lerobot.layout import INFO, RECIPE, record_path
from rpent_box_libero.teaching.lerobot.recipe import LessonShare, Recipe, differences
from rpent_box_libero.teaching.lerobot.writer import write_bytes
from rpent_box_libero.teaching.lessons import Lesson, lessons
from rpent_box_libero.teaching.student import StudentSource, identify
from rpent_box_libero.teaching.variables import set_variables


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, record what is missing, say how it goes."""
    options = _parser().parse_args(arguments)
    say = Teller(as_json=options.json_progress)
    set_variables()
    try:
        folder = Path(options.out)
        if options.finish:
            with _alone(folder):
                _finish(folder, read_recipe(folder), say)
            return 0
        check_workers(options.workers)
        student = StudentSource(backend=options.student, checkpoint=options.checkpoint)
        recipe = make_recipe(options, identify(student))
        with _alone(folder):
            check_recipe(folder, recipe)
            _record(folder, recipe, student, options.workers, say)
            _finish(folder, recipe, say)
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Run the same command again to go on.\n")
        return 130
    return 0


def make_recipe(options: argparse.Namespace, student: str) -> Recipe:
    """Return what the command line asks for. Raises `UnknownName` and `BadOption`."""
    if options.seed < 0:
        raise BadOption(f"{options.seed} is no seed", hint="Choose --seed from 0 on.")
    chosen = find_lessons(options.lessons, own_only=options.own)
    shares = []
    for lesson in chosen:
        own = lesson.says == lesson.task
        episodes = options.episodes if own else round(options.episodes * options.other_share)
        shares.append(LessonShare(name=lesson.name, episodes=episodes))
    return Recipe(
        seed=options.seed,
        lessons=tuple(share for share in shares if share.episodes),
        recording=Recording(
            max_steps=options.max_steps,
            noise=options.noise,
            joint_noise_rad=options.joint_noise,
            pushed_share=options.pushed_share,
            student_share=options.student_share if student else 0.0,
        ),
        student=student,
        renderer=os.environ.get("MUJOCO_GL", ""),
    )


def find_lessons(names: Sequence[str], *, own_only: bool) -> list[Lesson]:
    """Return the lessons called `names`, a suite's name standing for all of its own."""
    known = lessons()
    chosen: dict[str, Lesson] = {}
    for name in names:
        meant = [lesson for lesson in known if name in (lesson.name, lesson.suite)]
        if not meant:
            suites = sorted({lesson.suite for lesson in known})
            raise UnknownName(
                f"there is no lesson or suite called {name}",
                hint=f"Suites: {', '.join(suites)}. "
                f"Lessons: {', '.join(lesson.name for lesson in known)}",
            )
        chosen |= {lesson.name: lesson for lesson in meant}
    return [lesson for lesson in chosen.values() if not own_only or lesson.says == lesson.task]


def plan_jobs(recipe: Recipe) -> list[Job]:
    """Return all episodes of a recipe, in order of their numbers."""
    jobs: list[Job] = []
    for share in recipe.lessons:
        for within in range(share.episodes):
            jobs.append(Job(number=len(jobs), lesson=share.name, within=within))
    return jobs


def read_recipe(folder: Path) -> Recipe:
    """Return the recipe of a folder. Raises `OutputError` when it has none that can be read."""
    path = folder / RECIPE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recipe)
    except (OSError, msgspec.DecodeError) as error:
        raise OutputError(
            f"{path} is not the recipe of a folder of demonstrations: {error}",
            hint="Choose another --out.",
        ) from error


def check_recipe(folder: Path, recipe: Recipe) -> None:
    """Write the recipe into a new folder.

    Raises `OutputError` when it has another one, or holds a dataset without one: what has no record
    of ours is removed at the end, and there that would be all of it.
    """
    if not (folder / RECIPE).exists():
        foreign = [name for name in ("data", "videos", INFO) if (folder / name).exists()]
        if foreign:
            raise OutputError(
                f"{folder} was made by something else: {', '.join(foreign)} without {RECIPE}",
                hint="Choose another --out.",
            )
        write_bytes(folder / RECIPE, msgspec.json.format(msgspec.json.encode(recipe), indent=2))
        return
    found = read_recipe(folder)
    if found != recipe:
        raise OutputError(
            f"{folder} holds demonstrations of another recipe: "
            f"{'; '.join(differences(found, recipe))}",
            hint="Choose another --out, or use the same options as before.",
        )


def _record(
    folder: Path, recipe: Recipe, student: StudentSource, workers: int, say: Teller
) -> None:
    jobs = plan_jobs(recipe)
    missing = [job for job in jobs if not (folder / record_path(job.number)).exists()]
    say.begin(len(jobs), len(jobs) - len(missing), min(workers, len(missing)))
    if not missing:
        return
    unfinish(folder)
    setup = Setup(out=str(folder), seed=recipe.seed, recording=recipe.recording, student=student)
    with Crew(setup, opens=record_with, answers=Done, workers=workers) as crew:
        for done in crew.play(missing):
            say.episode(done)


def _finish(folder: Path, recipe: Recipe, say: Teller) -> None:
    say.finish(folder, finish_dataset(folder), recipe.episodes)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made if need be, against others who would write to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise OutputError(f"another program is writing to {folder}") from error
    finally:
        os.close(descriptor)


class Teller:
    """Says on standard output how it goes."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._begun = time.monotonic()
        self._episodes = self._recorded = self._before = self._solved = self._rows = 0

    def begin(self, episodes: int, recorded: int, workers: int) -> None:
        self._begun = time.monotonic()
        self._episodes, self._recorded, self._before = episodes, recorded, recorded
        self._say(
            {"event": "begun", "episodes": episodes, "recorded": recorded, "workers": workers},
            f"{recorded} of {episodes} episodes are there already",
        )

    def episode(self, done: Done) -> None:
        self._recorded += 1
        self._solved += done.solved
        self._rows += done.rows
        made = self._recorded - self._before
        elapsed_s = time.monotonic() - self._begun
        eta_s = elapsed_s / made * (self._episodes - self._recorded)
        self._say(
            {
                "event": "episode",
                "number": done.number,
                "lesson": done.lesson,
                "solved": done.solved,
                "rows": done.rows,
                "seconds": done.seconds,
                "recorded": self._recorded,
                "episodes": self._episodes,
                "solved_now": self._solved,
                "rows_now": self._rows,
                "elapsed_s": round(elapsed_s, 1),
                "eta_s": round(eta_s, 1),
            },
            f"{self._recorded}/{self._episodes} {done.lesson} {done.rows} rows"
            f"{'' if done.solved else ' (unsolved)'} · {self._solved}/{made} solved, "
            f"{self._rows / elapsed_s:.1f} rows/s, about {eta_s / 60:.0f} min left",
        )

    def finish(self, folder: Path, finished: Finished, wanted: int) -> None:
        missing = wanted - finished.episodes
        self._say(
            {
                "event": "finished",
                "out": str(folder),
                "episodes": finished.episodes,
                "rows": finished.rows,
                "solved": finished.solved,
                "missing": missing,
            },
            f"{folder} is a LeRobot dataset: {finished.episodes} episodes, "
            f"{finished.solved} solved, {finished.rows} rows"
            + (f"; {missing} episodes of its recipe are missing" if missing else ""),
        )

    def _say(self, event: dict[str, object], text: str) -> None:
        line = msgspec.json.encode(event).decode() if self._as_json else text
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="generate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="folder of the dataset")
    add("--lessons", nargs="+", default=["libero_spatial"], help="lessons, or suites")
    add("--own", action="store_true", help="only lessons that teach their scene's own sentence")
    add("--episodes", type=int, default=40, help="per lesson")
    add("--other-share", type=float, default=0.5, help="of that, where another sentence is taught")
    add("--seed", type=int, default=1)
    add("--workers", type=int, default=2, help="processes, with one simulator (1 GB) each")
    add("--student", default="", help="backend that acts while the expert labels (DAgger)")
    add("--checkpoint", default=None, help="the student's weights; without: its built-in ones")
    add("--student-share", type=float, default=0.8, help="of the episodes in which it acts")
    add("--max-steps", type=int, default=Recording().max_steps)
    add("--noise", type=float, default=1.0, help="scale of the disturbances; 0: none")
    add("--joint-noise", type=float, default=0.03, help="at the start, rad per joint")
    add("--pushed-share", type=float, default=0.2, help="of the episodes that begin after a push")
    add("--finish", action="store_true", help="only make a dataset of the episodes that are there")
    add("--json-progress", action="store_true", help="one JSON object per line")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
