# SPDX-License-Identifier: Apache-2.0
"""A task has two sentences: its scene's own, and the one that its name spells."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from rpent_box.errors import BadOption

Sentence: TypeAlias = Literal["scene", "name"]
"""`scene`: the bddl file's `:language`. `name`: the words of the task's name."""

_SCENE_PREFIX = re.compile(r"^[A-Z][A-Z_]*SCENE\d*_")
_OTHER_WORDS = ("_lan", "_task")
"""How the suites end whose scenes ask for something in other words than their tasks' names."""


def sentence_in_name(task_name: str) -> str:
    """Return the sentence that `task_name` spells, without the name of its room.

    It is what the recorded demonstrations of LIBERO are labelled with, and so what most models
    were trained on; it differs from the scene's in 25 tasks of the four test suites, as in "the
    black bowl" for "the akita black bowl". Variants of a task keep it, whatever they ask for.
    """
    return _SCENE_PREFIX.sub("", task_name).replace("_", " ").strip()


def check_sentence(suite: str, sentence: Sentence) -> None:
    """Raise `BadOption` where the tasks' names do not say what the scenes of `suite` ask for.

    Such a suite perturbs the sentence, or the goal with it. The old sentence would undo the first
    and make the second a trap, and either way the result would look like any other.
    """
    if sentence == "name" and suite.endswith(_OTHER_WORDS):
        raise BadOption(
            f"the tasks of {suite} are still named as before, but ask for something in other "
            "words: sentence=name would tell the model the wrong ones",
            hint="Leave --platform-option sentence=name out, or say sentence=scene.",
        )
