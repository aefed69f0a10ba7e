# SPDX-License-Identifier: Apache-2.0
"""The lessons of libero_spatial.

Every scene holds two bowls. The second stands where another task's sentence says, so that each
scene can be taught with two sentences.
"""

from __future__ import annotations

from rpent_box_libero.teaching.lessons import Lesson
from rpent_box_libero.teaching.skills.bowl import Drawer, Grip, PutBowl

SUITE = "libero_spatial"

OTHER_BOWL_IS_OF = (1, 6, 8, 9, 9, 3, 7, 9, 1, 7)
"""Scene → the task whose sentence names its second bowl."""

IN_DRAWER = 4
"""The task whose bowl lies in a drawer."""


def _lesson(task: int, says: int, bowl: str) -> Lesson:
    skill = PutBowl(bowl=bowl)
    if says == IN_DRAWER:
        grip = Grip(turn_rad=0.45, radius=0.042, height=0.022, held_aperture=(0.0025, 0.016))
        skill = PutBowl(bowl=bowl, grip=grip, drawer=Drawer())
    return Lesson(suite=SUITE, task=task, says=says, skill=skill)


SPATIAL: tuple[Lesson, ...] = (
    *(_lesson(task, task, "akita_black_bowl_1") for task in range(len(OTHER_BOWL_IS_OF))),
    *(_lesson(task, says, "akita_black_bowl_2") for task, says in enumerate(OTHER_BOWL_IS_OF)),
)
