# SPDX-License-Identifier: Apache-2.0
"""A task's files in the installed benchmark: its scene, its sentence, its initial states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from libero.libero import get_libero_path
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.errors import SimulatorError, UnknownName
from rpent_box.sim.platform import Suite


class Task(Struct, frozen=True, kw_only=True):
    """One task of one suite."""

    suite: str
    name: str
    bddl_file: Path

    def instruction(self) -> str:
        """Return the sentence in the bddl file.

        Not the one that can be guessed from the file's name: variants of a task change the former
        and keep the latter.
        """
        from libero.libero.envs.bddl_utils import get_problem_info

        sentence: str = get_problem_info(str(self.bddl_file))["language_instruction"]
        return sentence

    def init_states(self) -> NDArray[np.float64]:
        """Return the recorded initial states [states, 1 + nq + nv]: time, positions, velocities.

        Raises `SimulatorError` when the installed benchmark does not hold them.
        """
        return read_init_states(self.suite, self.name)


def find_task(suite: str, name: str) -> Task:
    """Return the files of task `name`. Raises `SimulatorError` when there is no scene for it."""
    scene = Path(get_libero_path("bddl_files")) / suite / f"{name}.bddl"
    if not scene.is_file():
        raise SimulatorError(
            f"the installed benchmark has no scene {suite}/{name}: {scene} is missing",
            hint="Install the simulator again: rpent-box build libero",
        )
    return Task(suite=suite, name=name, bddl_file=scene)


def read_init_states(suite: str, name: str) -> NDArray[np.float64]:
    """Return the initial states of task `name`; see `Task.init_states`."""
    file = Path(get_libero_path("init_states")) / suite / f"{name}.pruned_init.npz"
    try:
        with np.load(file, allow_pickle=False) as archive:
            states: NDArray[Any] = archive["states"]
    except (OSError, KeyError, ValueError) as error:
        raise SimulatorError(
            f"the initial states of {suite}/{name} cannot be read: {error}",
            hint="Install the simulator again: rpent-box build libero",
        ) from error
    return np.ascontiguousarray(states, dtype=np.float64)


def task_name(suite: Suite, index: int) -> str:
    """Return the name of task `index`. Raises `UnknownName`."""
    if 0 <= index < len(suite.tasks):
        return suite.tasks[index]
    raise UnknownName(
        f"{suite.name} has no task {index}; its tasks are 0 to {len(suite.tasks) - 1}",
        hint="See: rpent-box list",
    )
