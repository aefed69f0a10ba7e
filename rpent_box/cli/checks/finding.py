# SPDX-License-Identifier: Apache-2.0
"""One thing that was checked."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Status: TypeAlias = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True, kw_only=True):
    """What was looked at, how it stands, and what to do about it."""

    name: str
    status: Status
    message: str
    next_step: str = ""
    """One line, most often a command. Empty when there is nothing to do."""


def ok(name: str, message: str) -> Finding:
    return Finding(name=name, status="ok", message=message)


def warn(name: str, message: str, next_step: str = "") -> Finding:
    return Finding(name=name, status="warn", message=message, next_step=next_step)


def fail(name: str, message: str, next_step: str = "") -> Finding:
    return Finding(name=name, status="fail", message=message, next_step=next_step)
