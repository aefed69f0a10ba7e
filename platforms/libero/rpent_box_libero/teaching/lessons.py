# SPDX-License-Identifier: Apache-2.0
"""What can be taught: a scene, a sentence, and the expert for it."""

from __future__ import annotations

from dataclasses import dataclass

from rpent_box.errors import UnknownName
from rpent_box_libero.teaching.skill import Skill


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One kind of episode.

    Most teach what their scene's task asks for. Others teach another task's sentence where that
    one's target stands in the scene too, so that a student has to read.
    """

    suite: str
    task: int
    """Whose scene it plays in."""
    says: int
    """Whose sentence it teaches: a task of the same suite; `task` itself for most."""
    skill: Skill

    @property
    def name(self) -> str:
        own = f"{self.suite}-{self.task}"
        return own if self.says == self.task else f"{own}-says-{self.says}"


def lessons() -> tuple[Lesson, ...]:
    """Return all lessons, in order of suites and tasks."""
    from rpent_box_libero.teaching.lessons_goal import GOAL
    from rpent_box_libero.teaching.lessons_object import OBJECT
    from rpent_box_libero.teaching.lessons_spatial import SPATIAL

    return (*SPATIAL, *OBJECT, *GOAL)


def find_lesson(name: str) -> Lesson:
    """Return the lesson called `name`, e.g. `libero_spatial-3-says-9`. Raises `UnknownName`."""
    for lesson in lessons():
        if lesson.name == name:
            return lesson
    known = ", ".join(lesson.name for lesson in lessons())
    raise UnknownName(f"there is no lesson called {name}", hint=f"There are: {known}")
