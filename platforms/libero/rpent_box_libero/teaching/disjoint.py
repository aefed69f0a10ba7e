# SPDX-License-Identifier: Apache-2.0
"""Show that what was learnt from is not what is judged on.

    python -m rpent_box_libero.teaching.disjoint --data DIR…

compares where things lie at the start of every demonstration with where they lie in the recorded
initial states, settled as an evaluation settles them: those of every task of its suite whose scenes
hold the same things. It says how near they come, and fails where a scene is nearly a recorded one.
Beside this, only what judges a policy reads the recorded states (`controls`, `trial`): nothing that
teaches does.

The robot does not count: its arm begins elsewhere in each demonstration. Neither do cabinets and
stoves, whose places no state holds, nor what lies in a drawer and goes where that goes; drawers and
knobs themselves do.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, permutations, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.errors import OutputError, RpentBoxError
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite
from rpent_box_libero.teaching.lerobot.writer import read_records
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.variables import set_variables

if TYPE_CHECKING:
    from rpent_box_libero.environment import LiberoEnvironment

NEARLY_THE_SAME = 0.0002
"""Scenes are, when nothing in them differs by more than this (m, rad, and 1 for quaternions).

A recorded scene that settles again, the arm (0.03 rad) and the fixtures elsewhere, came within
0.00001 where it was tried. Chance hardly comes as near: in the scenes with the least in them that
moves (libero_object's task 8: two things in squares of 0.02 and 0.03 m), one pair in 12 million.
"""
MOVED_ALONG = 0.00005
"""What differs by more, once the fixtures are elsewhere, goes where they go."""
_TRIED_TWICE = slice(None, None, 10)
"""The recorded states that settle once more, with the fixtures elsewhere."""
_POSE = 7
"""Numbers of a thing that lies about: its position and its quaternion."""
_NUMBERED = re.compile(r"_\d+_joint\d+$")
"""What tells the joint of a thing that lies about from those of its kind."""

States = NDArray[np.float64]
"""[states, 1 + nq + nv]: time, positions, velocities."""


class Thing(Struct, frozen=True, kw_only=True, order=True):
    """What moves in a scene and is no part of the robot: a thing that lies about, a drawer, …"""

    kind: str
    """Things of one kind look alike: a scene in which they have changed places is the same."""
    name: str
    """Its joint's."""
    first: int
    """Which position of a state is its first."""
    size: int
    """How many positions it has: 7 or 1."""


Layout = tuple[Thing, ...]
"""In order of kinds and names."""


class Recorded(Struct, frozen=True, kw_only=True):
    """The recorded states of a task as an episode finds them."""

    task: int
    layout: Layout
    states: States
    loose: frozenset[str] = frozenset()
    """Names of what goes where the fixtures go."""


class Nearest(Struct, frozen=True, kw_only=True):
    """The fresh state of a task that comes nearest to a recorded one."""

    suite: str
    task: int
    fresh: int
    """How many were compared."""
    recorded: dict[int, int]
    """Task → how many of its recorded states they were compared with."""
    left_out: dict[int, list[str]]
    """Task → what goes where the fixtures go in its recorded states."""
    distance: float
    """The greatest difference in anything that counts."""
    of_task: int
    state: int
    """Which recorded state it is."""

    @property
    def is_near(self) -> bool:
        return self.distance <= NEARLY_THE_SAME


def compare(suite: str, task: int, fresh: States, recorded: Sequence[Recorded]) -> Nearest:
    """Compare fresh states of a task with the recorded ones of all whose scenes hold the same."""
    own = next(one.layout for one in recorded if one.task == task)
    alike = [one for one in recorded if _names(one.layout) == _names(own)]
    apart = {one.task: distances(fresh, own, one).min(0) for one in alike}
    of_task = min(apart, key=lambda task: float(apart[task].min()))
    return Nearest(
        suite=suite,
        task=task,
        fresh=len(fresh),
        recorded={one.task: len(one.states) for one in alike},
        left_out={one.task: sorted(one.loose) for one in alike if one.loose},
        distance=float(apart[of_task].min()),
        of_task=of_task,
        state=int(apart[of_task].argmin()),
    )


def distances(fresh: States, layout: Layout, recorded: Recorded) -> NDArray[np.float64]:
    """Return how far each fresh state is from each recorded one [fresh, recorded].

    That is the greatest difference in anything that counts. Things of one kind may have changed
    places.
    """
    nearest: NDArray[np.float64] = np.min(
        [_ordered(fresh, layout, recorded, one) for one in exchanges(layout)], axis=0
    )
    return nearest


def exchanges(layout: Layout) -> Iterator[Layout]:
    """Yield `layout` in each order that leaves every kind in its place."""
    kinds = [permutations(things) for _, things in groupby(layout, key=lambda thing: thing.kind)]
    for chosen in product(*kinds):
        yield tuple(thing for things in chosen for thing in things)


def _ordered(
    fresh: States, layout: Layout, recorded: Recorded, order: Layout
) -> NDArray[np.float64]:
    apart = [
        _apart(_numbers(fresh, ours), _numbers(recorded.states, theirs))
        for ours, theirs in zip(order, recorded.layout, strict=True)
        if theirs.name not in recorded.loose
    ]
    most: NDArray[np.float64] = np.max(apart, axis=0)
    return most


def _apart(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest difference of each pair of [ours, numbers] and [theirs, numbers].

    A quaternion and its negative are one orientation: the nearer of the two counts.
    """
    ours, theirs = ours[:, None], theirs[None]
    apart: NDArray[np.float64] = np.abs(ours - theirs)
    if apart.shape[-1] == _POSE:
        turned = np.abs(ours[..., 3:] + theirs[..., 3:])
        nearer = turned.max(-1) < apart[..., 3:].max(-1)
        apart[nearer, 3:] = turned[nearer]
    most: NDArray[np.float64] = apart.max(-1)
    return most


def _numbers(states: States, thing: Thing) -> NDArray[np.float64]:
    first = 1 + thing.first
    return states[:, first : first + thing.size]


def _names(layout: Layout) -> list[str]:
    return [thing.name for thing in layout]


def settle_recorded(suite: str, task: int) -> Recorded:
    """Return a task's recorded states, settled. Call inside `prepared_process`."""
    from rpent_box_libero.environment import LiberoEnvironment
    from rpent_box_libero.tasks import find_task, task_name

    scene = find_task(suite, task_name(find_suite(suite), task))
    environment = LiberoEnvironment(scene)
    try:
        return settle(environment, scene.init_states(), task)
    finally:
        environment.close()


def settle(environment: LiberoEnvironment, states: States, task: int) -> Recorded:
    """Return recorded `states` of the environment's task as episodes find them."""
    settled = _settled(environment, states, seed=0)
    layout = read_layout(environment)
    elsewhere = _settled(environment, states[_TRIED_TWICE], seed=1)
    loose = frozenset(
        thing.name
        for thing in layout
        if _differ(settled[_TRIED_TWICE], elsewhere, thing) > MOVED_ALONG
    )
    return Recorded(task=task, layout=layout, states=settled, loose=loose)


def _differ(ours: States, theirs: States, thing: Thing) -> float:
    return float(_apart(_numbers(ours, thing), _numbers(theirs, thing)).diagonal().max())


def _settled(environment: LiberoEnvironment, states: States, *, seed: int) -> States:
    settled = []
    for state in states:
        environment.reset(seed=seed, init_state=state, render=False)
        settled.append(environment.state())
    return np.stack(settled)


def read_layout(environment: LiberoEnvironment) -> Layout:
    """Return what moves in a scene that was reset, but the robot."""
    import mujoco

    robot = environment.problem.robots[0]
    model = environment.problem.sim.model._model
    own = {*robot._ref_joint_pos_indexes, *robot._ref_gripper_joint_pos_indexes}
    things = []
    for row in range(model.njnt):
        name, first = model.joint(row).name, int(model.jnt_qposadr[row])
        is_free = model.jnt_type[row] == mujoco.mjtJoint.mjJNT_FREE
        if first not in own:
            kind = _NUMBERED.sub("", name) if is_free else name
            things.append(Thing(kind=kind, name=name, first=first, size=_POSE if is_free else 1))
    return tuple(sorted(things))


def read_initial_states(folders: Sequence[Path]) -> dict[tuple[str, int], States]:
    """Return suite and task → the initial states of all demonstrations in its scene.

    Raises `OutputError` for a folder without any: nothing would be found in it.
    """
    states = defaultdict(list)
    for folder in folders:
        records = read_records(folder)
        if not records:
            raise OutputError(
                f"{folder} holds no demonstrations", hint="Name folders that `generate` made."
            )
        for record in records:
            lesson = find_lesson(record.lesson)
            states[lesson.suite, lesson.task].append(record.initial_state)
    return {task: np.array(held) for task, held in sorted(states.items())}


def compare_all(folders: Sequence[Path]) -> Iterator[Nearest]:
    """Compare all demonstrations in `folders`, scene by scene. Call inside `prepared_process`."""
    for suite, scenes in groupby(read_initial_states(folders).items(), key=lambda one: one[0][0]):
        recorded = [settle_recorded(suite, task) for task in range(len(find_suite(suite).tasks))]
        for (_, task), fresh in scenes:
            yield compare(suite, task, fresh, recorded)


def describe(nearest: Nearest) -> str:
    """Return what was compared with what, and how near it came."""
    tasks = ", ".join(map(str, nearest.recorded))
    left_out = "".join(
        f" (task {task}: without {', '.join(names)})" for task, names in nearest.left_out.items()
    )
    return (
        f"{nearest.suite} {nearest.task}: {nearest.fresh} fresh scenes with "
        f"{sum(nearest.recorded.values())} recorded ones of tasks {tasks}{left_out}: nearest "
        f"{nearest.distance:.5f}, to state {nearest.state} of task {nearest.of_task}"
        f"{' — nearly the same' if nearest.is_near else ''}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, say, and fail where something is nearly the same."""
    parser = argparse.ArgumentParser(prog="disjoint", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True, help="folders of datasets")
    options = parser.parse_args(arguments)
    set_variables()
    near = 0
    try:
        with prepared_process():
            for nearest in compare_all(options.data):
                near += nearest.is_near
                sys.stdout.write(f"{describe(nearest)}\n")
                sys.stdout.flush()
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 1 if near else 0


if __name__ == "__main__":
    raise SystemExit(main())
