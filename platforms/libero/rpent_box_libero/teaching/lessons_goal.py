# SPDX-License-Identifier: Apache-2.0
"""The lessons of libero_goal: ten sentences for one arrangement of things."""

from __future__ import annotations

from rpent_box_libero.teaching.lessons import Lesson
from rpent_box_libero.teaching.skill import Skill
from rpent_box_libero.teaching.skills.bottle import ON_RACK, PutBottle
from rpent_box_libero.teaching.skills.bowl import Grip, PutBowl
from rpent_box_libero.teaching.skills.cheese import IntoBowl
from rpent_box_libero.teaching.skills.drawer import MIDDLE, OpenDrawer
from rpent_box_libero.teaching.skills.knob import TurnKnob
from rpent_box_libero.teaching.skills.push import PushPlate
from rpent_box_libero.teaching.skills.spot import PutBowlAt
from rpent_box_libero.teaching.skills.stow import StowBowl

SUITE = "libero_goal"

_GRIP = Grip(held_aperture=(0.0025, 0.0125))
"""On a long way through the air the rim slips down to where the wall is thinnest."""

SKILLS: dict[int, Skill] = {
    0: OpenDrawer(MIDDLE),
    1: PutBowlAt(onto="flat_stove_1_cook_region", shift=(0.0, 0.0, 0.024), grip=_GRIP),
    2: PutBottle(),
    3: StowBowl(),
    4: PutBowlAt(
        onto="wooden_cabinet_1_top_side", near=(0.125, 0.094), shift=(0.0, 0.03, 0.0), grip=_GRIP
    ),
    5: PushPlate(),
    6: IntoBowl(),
    7: TurnKnob(),
    8: PutBowl(),
    9: ON_RACK,
}
"""Task → its expert."""

GOAL: tuple[Lesson, ...] = tuple(
    Lesson(suite=SUITE, task=task, says=task, skill=skill) for task, skill in SKILLS.items()
)
