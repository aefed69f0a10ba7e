# SPDX-License-Identifier: Apache-2.0
"""The tasks that the expert can teach."""

from __future__ import annotations

from dataclasses import dataclass

from rpent_box.errors import UnknownName


@dataclass(frozen=True)
class Lesson:
    """A task, and which of its objects goes where."""

    suite: str
    task: int
    thing: str
    """The simulator's name of the object to move."""
    goal: str
    """The simulator's name of the object to put it on."""


LESSONS: tuple[Lesson, ...] = (
    Lesson(suite="libero_spatial", task=0, thing="akita_black_bowl_1", goal="plate_1"),
)


def find_lesson(suite: str, task: int) -> Lesson:
    """Return what to move where. Raises `UnknownName`."""
    for lesson in LESSONS:
        if (lesson.suite, lesson.task) == (suite, task):
            return lesson
    known = ", ".join(f"{lesson.suite} {lesson.task}" for lesson in LESSONS)
    raise UnknownName(f"the expert cannot teach {suite} task {task}", hint=f"It can teach: {known}")
