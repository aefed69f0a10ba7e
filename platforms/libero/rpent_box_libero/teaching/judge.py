# SPDX-License-Identifier: Apache-2.0
"""How often the experts succeed in fresh scenes, undisturbed and without drawing.

`python -m rpent_box_libero.teaching.judge --lessons libero_spatial-4 --scenes 20` prints a table.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from rpent_box.errors import OutputError, RpentBoxError
from rpent_box.evaluate.statistics import wilson_interval
from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.lessons import find_lesson, lessons
from rpent_box_libero.teaching.variables import set_variables

MAX_STEPS = 200
JOINT_NOISE_RAD = 0.03
"""As in the recorded initial states, where models are judged."""
DEADLINE_S = 6 * 3600.0

_COLUMNS = "{:<28}{:<12}{:<14}{:<7}{}"


class Verdict(Struct, frozen=True, kw_only=True):
    """How one lesson went."""

    lesson: str
    seed: int
    solved_at: tuple[int | None, ...]
    """Per scene: the step that solved it; None: not within the limit."""

    @property
    def solved(self) -> int:
        return len(self._steps())

    @property
    def mean_steps(self) -> float:
        """Of the solved scenes."""
        return float(np.mean(self._steps())) if self.solved else float("nan")

    def _steps(self) -> list[int]:
        return [step for step in self.solved_at if step is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, play, print the table."""
    options = _parser().parse_args(arguments)
    set_variables()
    try:
        names = options.lessons or [lesson.name for lesson in lessons()]
        names = [find_lesson(name).name for name in names]
        verdicts = []
        _say(_COLUMNS.format("lesson", "solved", "95% of", "steps", "scenes missed"))
        for verdict in _verdicts(names, options):
            verdicts.append(verdict)
            _say(_row(verdict))
        if options.json is not None:
            _write(options.json, verdicts)
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def judge(name: str, *, scenes: int, seed: int, max_steps: int = MAX_STEPS) -> Verdict:
    """Play `scenes` fresh scenes of lesson `name`; scene n is the same for the same seed."""
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        scene = TeachingScene(find_lesson(name))
        try:
            solved_at = []
            for number in range(scenes):
                rng = np.random.default_rng([seed, number])
                scene.sample(rng, joint_noise_rad=JOINT_NOISE_RAD, render=False)
                solved = False
                while not solved and scene.steps < max_steps:
                    action = scene.skill.act(scene.state())
                    solved = scene.execute(action[None], render=False)[1]
                solved_at.append(scene.steps if solved else None)
        finally:
            scene.close()
    return Verdict(lesson=name, seed=seed, solved_at=tuple(solved_at))


def _verdicts(names: Sequence[str], options: argparse.Namespace) -> Iterator[Verdict]:
    play = functools.partial(judge, scenes=options.scenes, seed=options.seed)
    if options.workers == 1:
        yield from map(play, names)
        return
    # A fresh interpreter per worker: a forked one would share the parent's GL state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=options.workers, mp_context=context) as pool:
        yield from pool.map(play, names, timeout=DEADLINE_S)


def _row(verdict: Verdict) -> str:
    scenes = len(verdict.solved_at)
    low, high = wilson_interval(verdict.solved, scenes)
    solved = f"{verdict.solved} of {scenes}"
    interval = f"{low:.0%} to {high:.0%}"
    steps = f"{verdict.mean_steps:.0f}" if verdict.solved else "-"
    missed = [str(n) for n, step in enumerate(verdict.solved_at) if step is None]
    return _COLUMNS.format(verdict.lesson, solved, interval, steps, " ".join(missed))


def _write(path: Path, verdicts: Sequence[Verdict]) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(verdicts), indent=1))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="judge", description=__doc__)
    add = parser.add_argument
    add("--lessons", nargs="*", metavar="NAME", help="e.g. libero_spatial-4; without: all")
    add("--scenes", type=int, default=20, help="fresh scenes per lesson")
    add("--seed", type=int, default=3, help="with the scene's number, fixes a scene")
    add("--workers", type=int, default=1, help="simulators, one process each")
    add("--json", type=Path, default=None, help="file for the verdicts")
    return parser


def _say(line: str) -> None:
    sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
