# SPDX-License-Identifier: Apache-2.0
"""What a folder of demonstrations is made from, and what is known of each episode in it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from rpent_box_libero.teaching.episode import Recording

FORMAT = 1


class LessonShare(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    episodes: int


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a folder holds, but the experts themselves: after a change to
    them, choose another folder."""

    format: int = FORMAT
    seed: int
    lessons: tuple[LessonShare, ...]
    """Their episodes are numbered through in this order, from 0."""
    recording: Recording
    student: str = ""
    """Which weights act: backend and SHA-256; empty for none."""
    renderer: str = ""

    @property
    def episodes(self) -> int:
        return sum(lesson.episodes for lesson in self.lessons)


class EpisodeRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one episode beside its rows."""

    number: int
    """In the recipe."""
    lesson: str
    sentence: str
    """What a student is told."""
    rows: int
    steps: int
    solved: bool
    level: float
    student_acts: bool
    initial_state: tuple[float, ...]
    """The simulator's state after settling: time, positions, velocities."""
    statistics: dict[str, dict[str, Any]]
    """Column or camera → `min`, `max`, `mean`, `std`, `count` → nested lists."""


def differences(found: Struct, wanted: Struct) -> list[str]:
    """Return which fields differ, as `noise: 1.0, not 0.5`; nested ones by their own names."""
    lines = []
    for name in type(wanted).__struct_fields__:
        there, here = getattr(found, name), getattr(wanted, name)
        if there == here:
            continue
        if isinstance(here, Struct):
            lines += differences(there, here)
        elif isinstance(here, dict):
            lines += _changed(there, here)
        else:
            lines.append(f"{name}: {_text(there)}, not {_text(here)}")
    return lines


def _changed(found: dict[str, object], wanted: dict[str, object]) -> list[str]:
    return [
        f"{key}: {_text(found.get(key))}, not {_text(wanted.get(key))}"
        for key in sorted({*found, *wanted})
        if found.get(key) != wanted.get(key)
    ]


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
