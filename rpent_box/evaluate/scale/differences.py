# SPDX-License-Identifier: Apache-2.0
"""In which fields two structs differ, by dotted path: what a resume is refused for."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from rpent_box.sim.secrets import hide_secrets

MOST_SHOWN = 12
NOT_THERE = "not there"


class Difference(Struct, frozen=True):
    """One field that is not what it was."""

    path: str
    """E.g. `simulator.versions.mujoco`."""
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.path}: {self.old} → {self.new}"


def differences(name: str, old: object, new: object) -> list[Difference]:
    """Return every field in which `new` is not `old`, both called `name`; empty: they are equal.

    Either is a struct, or data that msgspec can write as JSON. Secrets are not looked at: those
    that were read from a file are hidden there.
    """
    plain = [hide_secrets(msgspec.to_builtins(one, str_keys=True)) for one in (old, new)]
    return list(_walk(name, *plain))


def in_lines(found: list[Difference]) -> str:
    """Return one line for each, and how many are left out where there are many."""
    lines = [f"  {one}" for one in found[:MOST_SHOWN]]
    if len(found) > MOST_SHOWN:
        lines.append(f"  and {len(found) - MOST_SHOWN} more")
    return "\n".join(lines)


def _walk(path: str, old: object, new: object) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _walk(f"{path}.{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _walk(f"{path}[{index}]", one, other)
    elif old != new or type(old) is not type(new):
        yield Difference(path, _shown(old), _shown(new))


class _Absent:
    """No value at all, which is not null."""


_ABSENT = _Absent()


def _shown(value: object) -> str:
    if isinstance(value, _Absent):
        return NOT_THERE
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
