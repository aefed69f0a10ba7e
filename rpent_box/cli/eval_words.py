# SPDX-License-Identifier: Apache-2.0
"""How words of `rpent-box eval` are read: lists, `auto`, addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rpent_box.errors import BadOption
from rpent_box.live.metrics_server import LOOPBACK
from rpent_box.sim.planning import read_task

AUTO = "auto"
NONE = "none"
NEWEST = "latest"
"""What stands for the newest evaluation, also where --resume has no word."""


def names(flag: str, values: Sequence[str] | None) -> tuple[str, ...]:
    """Return what was given, in order: each value may hold several, divided by commas.

    Raises `BadOption` for nothing at all between two of them: most often it is a variable that was
    never set, and without the option all would be played.
    """
    found = [part.strip() for value in values or () for part in value.split(",")]
    if not all(found):
        raise BadOption(
            f"{flag} {','.join(values or ())!r} has a name that is empty",
            hint=f"Leave {flag} out, or give names divided by commas.",
        )
    return tuple(found)


def tasks(values: Sequence[str] | None) -> tuple[int | str, ...]:
    """Return tasks by index or name. Raises `BadOption`."""
    return tuple(read_task(name) for name in names("--task", values))


def seeds(values: Sequence[str] | None) -> tuple[int, ...]:
    """Return seeds. Raises `BadOption` for what is no whole number."""
    return tuple(_whole("--seed", name) for name in names("--seed", values))


def envs(text: str) -> int | None:
    """Return how many simulators; None for `auto`. Raises `BadOption`."""
    if text == AUTO:
        return None
    count = _whole("--envs", text, or_else="or auto")
    if count < 1:
        raise BadOption(f"--envs {text} plays nothing; wanted 1 or more, or auto")
    return count


def ray(text: str | None) -> str | None:
    """Return `auto` or an address; None for `none`, which a resume without a cluster is told."""
    return None if text == NONE else text


def max_wait_ms(text: str) -> float | None:
    """Return milliseconds; None for `auto`. Raises `BadOption`."""
    if text == AUTO:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise BadOption(f"--max-wait-ms {text} is no duration; wanted milliseconds from 0, or auto")
    return value


def metrics_address(text: str) -> tuple[str, int]:
    """Return host and port of `[HOST:]PORT`; no host is this machine alone. Raises `BadOption`."""
    host, colon, port = text.rpartition(":")
    if (colon and not host) or not _is_port(port):
        raise BadOption(
            f"--metrics {text} is no address; wanted PORT or HOST:PORT, the port from 0 to 65535"
        )
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def with_newest(words: Sequence[str]) -> list[str]:
    """Give a `--resume` that has no word of its own the one that means the newest evaluation."""
    end = words.index("--") if "--" in words else len(words)
    whole: list[str] = []
    for place, word in enumerate(words):
        whole.append(word)
        following = words[place + 1] if place + 1 < end else "-"
        if word == "--resume" and place < end and following.startswith("-"):
            whole.append(NEWEST)
    return whole


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= 65535


def _whole(flag: str, text: str, or_else: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        wanted = " ".join(filter(None, ("a whole number", or_else)))
        raise BadOption(f"{flag} {text} is no number; wanted {wanted}") from None
