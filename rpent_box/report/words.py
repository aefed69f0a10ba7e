# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them, on the page and in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup, escape

from rpent_box.evaluate.scale.plan import JobKey, TaskKey

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
NOTHING = "\N{EM DASH}"
"""Stands where there is no number."""


def percent(share: float | None) -> str:
    """Return a share: `76.8%`, `100%`."""
    if share is None:
        return NOTHING
    text = f"{100 * share:.1f}"
    return "100%" if text == "100.0" else f"{text}%"


def interval(bounds: tuple[float, float]) -> str:
    """Return an interval of shares: `69.1–83.1%`."""
    low, high = (f"{100 * bound:.1f}" for bound in bounds)
    return f"{low}{DASH}{high}%"


def points(difference: float | None, *, signed: bool = True) -> str:
    """Return a difference of shares in percentage points: `+4.2`, `−1.0`, `0.0`."""
    if difference is None:
        return NOTHING
    text = f"{100 * difference:+.1f}" if signed else f"{100 * difference:.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", MINUS)


def probability(p: float) -> str:
    """Return a test's probability: `0.031`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def seconds(value: float | None) -> str:
    """Return a duration: `4 ms`, `0.84 s`, `12.3 s`, `3 min 05 s`, `2 h 07 min`."""
    if value is None:
        return NOTHING
    if value < 0.1:
        return f"{1000 * value:.1f} ms" if value < 0.01 else f"{1000 * value:.0f} ms"
    if value < 10:
        return f"{value:.2f} s"
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def number(value: float | None) -> str:
    """Return a number with at most one decimal, thousands apart: `1 234`, `12.5`."""
    if value is None:
        return NOTHING
    text = f"{value:,.1f}".removesuffix(".0")
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", MINUS)


def signed(value: float | None) -> str:
    """Return a difference: `+3`, `−1.5`, `0`."""
    if value is None:
        return NOTHING
    return number(value) if value <= 0 else f"+{number(value)}"


def count(amount: int, noun: str, plural: str = "") -> str:
    """Return `1 episode`, `3 episodes`."""
    return f"{number(amount)} {noun if amount == 1 else plural or noun + 's'}"


def clock(stamp: str | None) -> str:
    """Return an ISO 8601 moment of UTC as `2026-11-30 09:50:12 UTC`; what is none, as it is."""
    if not stamp:
        return NOTHING
    head = stamp.removesuffix("Z").removesuffix("+00:00")
    return f"{head.replace('T', ' ')} UTC" if head != stamp else stamp


def ranges(values: Iterable[int]) -> str:
    """Return whole numbers as `0–9, 12`."""
    parts: list[list[int]] = []
    for value in sorted(set(values)):
        if parts and value == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], value]
        else:
            parts.append([value])
    return ", ".join(DASH.join(map(str, part)) for part in parts)


def grouped(keys: Sequence[JobKey]) -> list[tuple[str, str]]:
    """Return which episodes these are, once for each task.

    (`libero_spatial 3`, `init states 0–9, seeds 7–9; init state 4, seed 10`)
    """
    tasks: dict[TaskKey, dict[int, list[int]]] = {}
    for key in keys:
        seeds = tasks.setdefault(TaskKey(key.suite, key.task), {})
        seeds.setdefault(key.seed, []).append(key.init_state)
    return [(f"{key.suite} {key.task}", _by_seed(seeds)) for key, seeds in tasks.items()]


def _by_seed(seeds: Mapping[int, Sequence[int]]) -> str:
    """Name initial states with their seeds: those that have the same ones together."""
    alike: dict[str, list[int]] = {}
    for seed, states in seeds.items():
        alike.setdefault(_named("init state", states), []).append(seed)
    return "; ".join(f"{states}, {_named('seed', those)}" for states, those in alike.items())


def _named(noun: str, values: Sequence[int]) -> str:
    return f"{noun}{'s' * (len(set(values)) > 1)} {ranges(values)}"


def breakable(path: str) -> Markup:
    """Return a dotted path that may be broken behind its dots and underscores."""
    text = str(escape(path))
    return Markup(text.replace(".", ".<wbr>").replace("_", "_<wbr>"))  # noqa: S704 - escaped
