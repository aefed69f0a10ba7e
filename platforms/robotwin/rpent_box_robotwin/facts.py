# SPDX-License-Identifier: Apache-2.0
"""What a task says of its scene: which objects are in it, and which arm reaches them.

Sentences are filled with it, and three tasks (open_laptop, place_object_scale, put_object_cabinet)
only know after being asked when they are solved. But three others (blocks_ranking_size,
place_bread_basket, stack_blocks_three) answer by solving the task with the scripted expert, which
moves the robot before the episode begins. Hence a task is asked once per reset, with its verbs
taken away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rpent_box.errors import SimulatorError

_VERBS = (
    "back_to_origin",
    "close_gripper",
    "grasp_actor",
    "move",
    "move_by_displacement",
    "move_to_pose",
    "open_gripper",
    "place_actor",
)
"""What a scripted expert plans and moves with, in RoboTwin's own task class."""


class StockTask(Protocol):
    """A RoboTwin task whose scene is built."""

    def get_info(self) -> dict[str, object]: ...


def scene_facts(task: StockTask) -> dict[str, str]:
    """Return placeholder → what fills it, e.g. `{"{A}": "020_hammer/base0", "{a}": "left"}`.

    Call it once, between the reset and the first action or look at success. Nothing moves.
    """
    with _standing_still(task):
        found = task.get_info()
    if not isinstance(found, dict):
        raise SimulatorError(f"{type(task).__name__} describes its scene as {found!r}")
    return {str(name): str(value) for name, value in found.items()}


@contextmanager
def _standing_still(task: StockTask) -> Iterator[None]:
    """Hide the verbs of `task`: a name on the instance is found before its class's method."""
    hidden = [verb for verb in _VERBS if verb not in vars(task)]
    for verb in hidden:
        setattr(task, verb, _do_nothing)
    try:
        yield
    finally:
        for verb in hidden:
            delattr(task, verb)


def _do_nothing(*_words: object, **_named: object) -> None:
    """Stand in for a verb."""
