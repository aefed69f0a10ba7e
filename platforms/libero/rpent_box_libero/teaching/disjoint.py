# SPDX-License-Identifier: Apache-2.0
"""Show that what was learnt from is not what is judged on.

    python -m rpent_box_libero.teaching.disjoint --data DIR…

compares the initial state of every demonstration with the 50 recorded ones of its scene's task,
settled as an evaluation settles them. It says how near they come, and fails where one is nearly
the same. Beside this, only what judges a policy reads the recorded states (`controls`, `trial`):
nothing that teaches does.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.errors import RpentBoxError
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite
from rpent_box_libero.teaching.lerobot.writer import read_records
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.variables import set_variables

NEARLY_THE_SAME = 0.005
"""States are, when no joint and no thing's position or quaternion differs by more than this (rad,
m, 1)."""

States = NDArray[np.float64]
"""[states, 1 + nq + nv]: time, positions, velocities."""


class Nearest(Struct, frozen=True, kw_only=True):
    """The fresh state of a task that comes nearest to a recorded one."""

    suite: str
    task: int
    fresh: int
    """How many were compared."""
    distance: float
    """The greatest difference in any position of the two."""

    @property
    def is_near(self) -> bool:
        return self.distance <= NEARLY_THE_SAME


class Layout(Struct, frozen=True, kw_only=True):
    """Of the positions in a state."""

    positions: int
    """How many there are."""
    quaternions: tuple[int, ...]
    """Which of them begin a quaternion, 4 of them."""


def nearest_distance(fresh: States, recorded: States, layout: Layout) -> float:
    """Return the smallest, over all pairs, of the greatest difference in any position.

    A quaternion and its negative are one orientation: the nearer of the two counts.
    """
    held, played = (states[:, 1 : 1 + layout.positions] for states in (recorded, fresh))
    return float(min(_differences(held, one, layout).max(1).min() for one in played))


def _differences(held: States, one: NDArray[np.float64], layout: Layout) -> States:
    differences: States = np.abs(held - one)
    for first in layout.quaternions:
        own = slice(first, first + 4)
        other = np.abs(held[:, own] + one[own])
        nearer = other.max(1) < differences[:, own].max(1)
        differences[nearer, own] = other[nearer]
    return differences


def compare(suite: str, task: int, fresh: States) -> Nearest:
    """Compare fresh states of a task with its recorded ones. Call inside `prepared_process`."""
    recorded, layout = settle_recorded(suite, task)
    distance = nearest_distance(fresh, recorded, layout)
    return Nearest(suite=suite, task=task, fresh=len(fresh), distance=distance)


def settle_recorded(suite: str, task: int) -> tuple[States, Layout]:
    """Return the recorded states as an episode finds them, and where their positions lie."""
    import mujoco

    from rpent_box_libero.environment import LiberoEnvironment
    from rpent_box_libero.tasks import find_task, task_name

    scene = find_task(suite, task_name(find_suite(suite), task))
    environment = LiberoEnvironment(scene)
    try:
        recorded = []
        for state in scene.init_states():
            environment.reset(seed=0, init_state=state, render=False)
            recorded.append(environment.state())
        model = environment.problem.sim.model._model
        free = model.jnt_type == mujoco.mjtJoint.mjJNT_FREE
        quaternions = tuple(int(first) + 3 for first in model.jnt_qposadr[free])
        return np.stack(recorded), Layout(positions=int(model.nq), quaternions=quaternions)
    finally:
        environment.close()


def read_initial_states(folders: Sequence[Path]) -> dict[tuple[str, int], States]:
    """Return suite and task → the initial states of all demonstrations in its scene."""
    states = defaultdict(list)
    for folder in folders:
        for record in read_records(folder):
            lesson = find_lesson(record.lesson)
            states[lesson.suite, lesson.task].append(record.initial_state)
    return {task: np.array(held) for task, held in sorted(states.items())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, say, and fail where something is nearly the same."""
    parser = argparse.ArgumentParser(prog="disjoint", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True, help="folders of datasets")
    options = parser.parse_args(arguments)
    set_variables()
    near = 0
    try:
        with prepared_process():
            for (suite, task), states in read_initial_states(options.data).items():
                nearest = compare(suite, task, states)
                near += nearest.is_near
                sys.stdout.write(
                    f"{suite} {task}: {nearest.fresh} fresh scenes, nearest {nearest.distance:.4f}"
                    f"{' — nearly the same' if nearest.is_near else ''}\n"
                )
                sys.stdout.flush()
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 1 if near else 0


if __name__ == "__main__":
    raise SystemExit(main())
