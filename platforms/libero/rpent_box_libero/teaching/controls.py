# SPDX-License-Identifier: Apache-2.0
"""Whether words choose: `python -m rpent_box_libero.teaching.controls --out FILE.jsonl`.

Plays the recorded initial states of a task with the sentence of another one whose target stands in
the scene too, and notes which target the policy goes for. Each pair of a scene and a sentence is a
lesson: this shows that words choose between two answers that were both taught there, and nothing of
sentences that were never taught in a scene.

Attempts that are in the file are not
played again, so a stopped command goes on where it was; their number and order change nothing.

This judges a policy, and so reads the recorded states: nothing that teaches may import it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rpent_box.errors import BadOption, OutputError, RpentBoxError, UnknownName
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box.sim.lines import LineWriter, read_lines
from rpent_box_libero.platform import deciding_versions
from rpent_box_libero.suites import find_suite
from rpent_box_libero.tasks import task_name
from rpent_box_libero.teaching.crew import Answer, Crew, Job, OneScene, check_workers
from rpent_box_libero.teaching.lerobot.recipe import differences
from rpent_box_libero.teaching.lessons import Lesson, find_lesson, lessons
from rpent_box_libero.teaching.student import StudentSource, identify, load_backend, name_of
from rpent_box_libero.teaching.trial import Conditions, Trial, play_trial
from rpent_box_libero.teaching.variables import set_variables

TrialKey: TypeAlias = tuple[str, int, int, int, int]
"""Suite, task, says, initial state, seed."""


class Setup(Struct, frozen=True, kw_only=True):
    """What a process is told when it starts."""

    policy: StudentSource
    seed: int


class Tried(Answer, frozen=True, kw_only=True):
    """An attempt that was played."""

    trial: Trial | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, play what is missing, say how it went."""
    options = _parser().parse_args(arguments)
    set_variables()
    try:
        played = run(options)
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Run the same command again to go on.\n")
        return 130
    for line in summary(played):
        _say(line)
    return 0


def run(options: argparse.Namespace) -> list[Trial]:
    """Play what is missing of what `options` ask for. Return those attempts, old and new."""
    policy = StudentSource(backend=options.backend, checkpoint=options.checkpoint)
    chosen = choose_lessons(options.suite, options.tasks)
    states = find_suite(options.suite).init_states
    if not 1 <= options.episodes <= states:
        raise BadOption(f"{options.episodes} episodes were asked for; wanted 1 to {states}")
    check_workers(options.workers)
    conditions = conditions_here(identify(policy), seed=options.seed)
    asked = list(plan(chosen, conditions, episodes=options.episodes))
    path = Path(options.out)
    done = {key_of(trial): trial for trial in read_done(path, conditions)}
    missing = [trial for trial in asked if key_of(trial) not in done]
    _say(f"{len(asked) - len(missing)} of {len(asked)} attempts are there already")
    _make_room(path)
    with LineWriter(path) as file:
        setup = Setup(policy=policy, seed=options.seed)
        for trial in play(missing, setup, workers=options.workers):
            file.append(trial)
            done[key_of(trial)] = trial
    return [done[key_of(trial)] for trial in asked]


def choose_lessons(suite: str, tasks: str) -> list[Lesson]:
    """Return the lessons of `suite` that teach another task's sentence, in the scenes of `tasks`.

    `tasks` is `all`, or indices or names with commas between. Raises `UnknownName` where there are
    none.
    """
    others = [one for one in lessons() if one.suite == suite and one.says != one.task]
    if tasks != "all":
        names = {task_name(find_suite(suite), one.task): str(one.task) for one in others}
        wanted = {names.get(word.strip(), word.strip()) for word in tasks.split(",")}
        unknown = wanted - {str(one.task) for one in others}
        if unknown:
            raise UnknownName(
                f"in {suite} no other task's sentence can be said in the scene of task "
                f"{', '.join(sorted(unknown))}",
                hint=f"It can in those of: {', '.join(sorted({str(one.task) for one in others}))}",
            )
        others = [one for one in others if str(one.task) in wanted]
    if not others:
        raise UnknownName(
            f"no scene of {suite} has another task's sentence to be said in it",
            hint="Where all tasks share one scene, as in libero_goal, the suite's own scores tell "
            "whether the sentence is read.",
        )
    return others


def conditions_here(model: str, *, seed: int) -> Conditions:
    """Return under which conditions this process, and those it starts, play `model`."""
    return Conditions(
        model=model,
        seed=seed,
        renderer=os.environ.get("MUJOCO_GL", ""),
        versions=deciding_versions(),
    )


def plan(chosen: Iterable[Lesson], conditions: Conditions, *, episodes: int) -> Iterator[Trial]:
    """Yield the attempts at each lesson, their outcomes open."""
    for lesson in chosen:
        for init_state in range(episodes):
            yield trial_of(lesson, conditions, init_state=init_state)


def trial_of(lesson: Lesson, conditions: Conditions, *, init_state: int) -> Trial:
    """Return one attempt at a lesson, its outcome open."""
    return Trial(
        **msgspec.structs.asdict(conditions),
        suite=lesson.suite,
        task=lesson.task,
        says=lesson.says,
        init_state=init_state,
    )


def key_of(trial: Trial) -> TrialKey:
    """Return what tells an attempt from the others of the same policy."""
    return (trial.suite, trial.task, trial.says, trial.init_state, trial.seed)


def read_done(path: Path, conditions: Conditions) -> list[Trial]:
    """Return the attempts in the file.

    Raises `OutputError` when they were played under others than `conditions`: whoever counts what
    is in the file would count them together.
    """
    found = read_lines(path, Trial, what="an attempt") if path.exists() else []
    for trial in found:
        if differing := differences(trial, conditions):
            raise OutputError(
                f"{path} holds attempts under other conditions: {'; '.join(differing)}",
                hint="Choose another --out, or play as before.",
            )
    return found


def play(missing: Sequence[Trial], setup: Setup, *, workers: int) -> Iterator[Trial]:
    """Play the attempts in `workers` processes, each with a simulator of its own."""
    begun = time.monotonic()
    jobs = [
        Job(number=number, lesson=_lesson_of(trial), within=trial.init_state)
        for number, trial in enumerate(missing)
    ]
    with Crew(setup, opens=try_with, answers=Tried, workers=workers) as crew:
        played = (tried.trial for tried in crew.play(jobs) if tried.trial is not None)
        for number, trial in enumerate(played, 1):
            yield trial
            left_s = (time.monotonic() - begun) / number * (len(jobs) - number)
            _say(
                f"{number}/{len(jobs)} scene {trial.task} says {trial.says}, state "
                f"{trial.init_state}: lifted {trial.lifted}, reached {trial.reached} after "
                f"{trial.steps} steps; about {left_s:.0f} s left"
            )


def try_with(setup_json: bytes) -> Tester:
    """Open what plays attempts in a process."""
    return Tester(msgspec.json.decode(setup_json, type=Setup))


class Tester:
    """Plays attempts with one policy."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._backend = load_backend(setup.policy)
        self._model = name_of(self._backend)
        self._scene = OneScene()

    def __enter__(self) -> Tester:
        return self

    def __exit__(self, *_: object) -> None:
        self._scene.close()
        self._backend.close()

    def play(self, job: Job) -> Tried:
        """Play the attempt from initial state `within` in the scene of a lesson."""
        scene = self._scene.of(job.lesson)
        lesson = scene.lesson
        conditions = conditions_here(self._model, seed=self._setup.seed)
        asked = trial_of(lesson, conditions, init_state=job.within)
        trial = play_trial(
            scene,
            self._backend,
            asked,
            init_state=scene.environment.task.init_states()[job.within],
            own=find_lesson(f"{lesson.suite}-{lesson.task}").skill,
            max_steps=find_suite(lesson.suite).max_steps,
        )
        return Tried(number=job.number, lesson=job.lesson, trial=trial)


def summary(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a line per scene and one for all: what was lifted first, whose goal was reached."""
    pairs = dict.fromkeys((trial.task, trial.says) for trial in trials)
    for task, says in pairs:
        own = [trial for trial in trials if (trial.task, trial.says) == (task, says)]
        yield f"scene {task} says {says}: {_counts(own)}"
    low, high = wilson_interval(sum(one.lifted == "named" for one in trials), len(trials))
    yield f"all: {_counts(trials)}; the named one lifted first in {low:.0%} to {high:.0%}"


def _make_room(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create {path.parent}: {error.strerror}") from error


def _counts(trials: Sequence[Trial]) -> str:
    lifted = Counter(trial.lifted for trial in trials)
    reached = Counter(trial.reached for trial in trials)
    return f"of {len(trials)}, lifted first {dict(lifted)}, reached {dict(reached)}"


def _lesson_of(trial: Trial) -> str:
    return f"{trial.suite}-{trial.task}-says-{trial.says}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="controls", description=__doc__)
    add = parser.add_argument
    add("--out", required=True, help="JSON Lines: one attempt each; those in it are kept")
    add("--backend", default="mini-wam")
    add("--checkpoint", default=None, help="its weights; without: the built-in ones")
    add("--suite", default="libero_spatial")
    add("--tasks", default="all", help="scenes by index or name, e.g. 0,3,7; or all")
    add("--episodes", type=int, default=50, help="recorded initial states of each, from 0")
    add("--seed", type=int, default=7, help="of the simulator, as in an evaluation")
    add("--workers", type=int, default=2, help="simulators, one process each")
    return parser


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
