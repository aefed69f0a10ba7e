# SPDX-License-Identifier: Apache-2.0
"""A task has two sentences: its scene's own, and the one that its name spells."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Sentence: TypeAlias = Literal["scene", "name"]
"""`scene`: the bddl file's `:language`. `name`: the words of the task's name."""

_SCENE_PREFIX = re.compile(r"^[A-Z][A-Z_]*_SCENE\d+_")


def sentence_in_name(task_name: str) -> str:
    """Return the sentence that `task_name` spells, without the name of its room.

    It is what the recorded demonstrations of LIBERO are labelled with, and so what most models
    were trained on; it differs from the scene's in 25 tasks of the four test suites, as in "the
    black bowl" for "the akita black bowl". Variants of a task keep it, whatever they ask for.
    """
    return _SCENE_PREFIX.sub("", task_name).replace("_", " ")
