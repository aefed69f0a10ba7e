# SPDX-License-Identifier: Apache-2.0
"""A platform's suites as text: one by one, and variants of one suite together."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from rpent_box.cli.catalogue import PlatformEntry, SuiteEntry
from rpent_box.cli.tables import render_table

INDENT = " " * 4
WIDTH = 100


def render_suites(entry: PlatformEntry) -> str:
    """Return the suites of `entry` without their tasks, a line each; variants of one together."""
    rows = [
        (_name(suite, entry), "", "", "", f"not here: {suite.unavailable}")
        if suite.unavailable
        else (
            _name(suite, entry),
            str(suite.tasks),
            _states_in_short([suite]),
            _steps([suite]),
            "",
        )
        for suite in entry.suites
        if not suite.variant_of
    ]
    header = ("suite", "tasks", "init states", "max steps", "")
    gone = sum(1 for suite in entry.suites if suite.variant_of and suite.unavailable)
    why = f"{INDENT}not here: {gone} variants, see rpent-box list --platform {entry.name}\n"
    return render_table(header, rows, indent=INDENT) + _variants(entry) + why * bool(gone)


def render_suites_in_detail(entry: PlatformEntry) -> str:
    """Return the suites of `entry` with their tasks; a variant's only where it is the only one."""
    if len(entry.suites) == 1:
        return _with_tasks(entry.suites)
    whole = [suite for suite in entry.suites if not suite.variant_of and not suite.unavailable]
    text = "".join(_with_tasks(alike) for alike in _grouped(whole, _what_is_listed))
    variants = _variants(entry)
    if variants:
        command = f"rpent-box list --platform {entry.name} --suite NAME"
        text += f"\n{variants}{INDENT}tasks of a variant: {command}\n"
    gone = [suite for suite in entry.suites if suite.unavailable]
    for alike in _grouped(gone, lambda suite: suite.unavailable):
        text += "\n" + _not_here(alike)
    return text


def _variants(entry: PlatformEntry) -> str:
    """Return the variants that can be played, grouped by what they vary."""
    text = ""
    here = [suite for suite in entry.suites if suite.variant_of and not suite.unavailable]
    for alike in _grouped(here, lambda suite: suite.variant_of):
        tasks = _range(suite.tasks for suite in alike)
        states = _states_in_short(alike) + " init states" * any(one.init_states for one in alike)
        text += (
            f"{INDENT}variants of {alike[0].variant_of} ({tasks} tasks, {states}, "
            f"{_steps(alike)} steps at most)\n"
        )
        text += _wrapped(", ".join(_name(suite, entry) for suite in alike), indent=INDENT + "  ")
    return text


def _with_tasks(alike: Sequence[SuiteEntry]) -> str:
    """Return suites that differ in nothing but their names, with their tasks."""
    first = alike[0]
    names = ", ".join(suite.name for suite in alike)
    if first.unavailable:
        return "\n" + _not_here(alike)
    variant = f"a variant of {first.variant_of}, " if first.variant_of else ""
    head = (
        f"\n{INDENT}{names}: {variant}{first.tasks} tasks, {_states(first)}"
        f"{_steps(alike)} steps at most\n"
    )
    limits = [f" ({steps} steps)" for steps in first.task_max_steps] or [""] * first.tasks
    return head + "".join(
        f"{INDENT}{number:4d}  {name}{limit}\n"
        for number, (name, limit) in enumerate(zip(first.task_names, limits, strict=True))
    )


def _not_here(alike: Sequence[SuiteEntry]) -> str:
    """Return suites that cannot be played for one reason."""
    names = ", ".join(suite.name for suite in alike)
    why = _wrapped(f"not here: {alike[0].unavailable}")
    return why + _wrapped(names, indent=INDENT + "  ")


def _what_is_listed(suite: SuiteEntry) -> str:
    states = (suite.init_states, suite.first_init_state)
    return str((suite.task_names, suite.max_steps, suite.task_max_steps, states))


def _name(suite: SuiteEntry, entry: PlatformEntry) -> str:
    return suite.name + (" (default)" if suite.name == entry.default_suite else "")


def _states(suite: SuiteEntry) -> str:
    if suite.init_states:
        first = f" from {suite.first_init_state}" if suite.first_init_state else ""
        return f"{suite.init_states} initial states each{first}, "
    return f"scenes by seed from {suite.first_init_state}, " if suite.first_init_state else ""


def _states_in_short(suites: Sequence[SuiteEntry]) -> str:
    if any(suite.init_states for suite in suites):
        return _range(suite.init_states for suite in suites)
    first = min(suite.first_init_state for suite in suites)
    return f"seeds from {first}" if first else "any seed"


def _steps(suites: Iterable[SuiteEntry]) -> str:
    return _range(
        steps for suite in suites for steps in (suite.task_max_steps or (suite.max_steps,))
    )


def _range(values: Iterable[int]) -> str:
    known = sorted(set(values))
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _wrapped(text: str, *, indent: str = INDENT) -> str:
    wrapped = textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )
    return wrapped + "\n"


def _grouped(
    suites: Iterable[SuiteEntry], key: Callable[[SuiteEntry], str]
) -> list[list[SuiteEntry]]:
    """Return those of one key together, keys in the order in which they come."""
    groups: dict[str, list[SuiteEntry]] = {}
    for suite in suites:
        groups.setdefault(key(suite), []).append(suite)
    return list(groups.values())
