# SPDX-License-Identifier: Apache-2.0
"""The lessons of libero_object.

Every scene holds six groceries and a basket. Two of the other five are taught too, each with the
sentence of the task whose target it is.
"""

from __future__ import annotations

from rpent_box_libero.teaching.lessons import Lesson
from rpent_box_libero.teaching.skills.basket import IntoBasket

SUITE = "libero_object"

TARGETS = (
    "alphabet_soup_1",
    "cream_cheese_1",
    "salad_dressing_1",
    "bbq_sauce_1",
    "ketchup_1",
    "tomato_sauce_1",
    "butter_1",
    "milk_1",
    "chocolate_pudding_1",
    "orange_juice_1",
)
"""Task → what it asks for."""

OTHERS = ((1, 7), (0, 5), (0, 4), (2, 8), (1, 3), (7, 9), (5, 9), (6, 8), (2, 4), (3, 6))
"""Scene → tasks whose targets stand in it as well; each task is said in two scenes not its own."""


def _lesson(task: int, says: int) -> Lesson:
    return Lesson(suite=SUITE, task=task, says=says, skill=IntoBasket(thing=TARGETS[says]))


OBJECT: tuple[Lesson, ...] = (
    *(_lesson(task, task) for task in range(len(TARGETS))),
    *(_lesson(task, says) for task, others in enumerate(OTHERS) for says in others),
)
