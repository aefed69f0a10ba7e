# SPDX-License-Identifier: Apache-2.0
"""Which episodes a run plays, checked against what the platform offers."""

from __future__ import annotations

from rpent_box.errors import BadOption, UnknownName, UsageError
from rpent_box.sim.platform import PlatformPlugin, Suite

SEEDS = 1 << 32


def find_suite(plugin: PlatformPlugin, name: str | None) -> Suite:
    """Return the suite called `name`, or the default one for None.

    Raises `UnknownName`, or `UsageError` for a suite that is known but cannot be played here.
    """
    wanted = plugin.default_suite if name is None else name
    for suite in plugin.suites:
        if suite.name == wanted:
            break
    else:
        playable = ", ".join(suite.name for suite in plugin.suites if not suite.unavailable)
        raise UnknownName(
            f"{plugin.name} has no suite called {wanted}",
            hint=f"Suites of {plugin.name}: {playable}. See: rpent-box list",
        )
    if suite.unavailable:
        raise UsageError(
            f"suite {wanted} of {plugin.name} cannot be played: {suite.unavailable}",
            hint="See: rpent-box list",
        )
    return suite


def check_task(suite: Suite, task: int) -> str:
    """Return the name of `task`. Raises `UnknownName`."""
    if 0 <= task < len(suite.tasks):
        return suite.tasks[task]
    raise UnknownName(
        f"suite {suite.name} has no task {task}",
        hint=f"Its tasks are 0 to {len(suite.tasks) - 1}. See: rpent-box list",
    )


def check_episodes(suite: Suite, *, first_init_state: int, episodes: int) -> None:
    """Raise `BadOption` unless every episode gets an init state of its own."""
    if episodes < 1:
        raise BadOption(f"{episodes} episodes cannot be played; wanted 1 or more")
    if first_init_state < 0:
        raise BadOption(f"there is no init state {first_init_state}; the first is 0")
    # Playing a state twice would count one result twice.
    if suite.init_states and first_init_state + episodes > suite.init_states:
        left = suite.init_states - first_init_state
        raise BadOption(
            f"{episodes} episodes from init state {first_init_state} were asked for, but "
            f"{suite.name} has {suite.init_states} init states per task and each is played once",
            hint=f"Choose --episodes up to {left}."
            if left > 0
            else f"Choose --first-init-state up to {suite.init_states - 1}.",
        )


def check_seed(seed: int) -> int:
    """Return `seed` when it fits numpy's 32 bits, which simulators use. Raises `BadOption`."""
    if 0 <= seed < SEEDS:
        return seed
    raise BadOption(f"{seed} is no seed", hint=f"Choose --seed from 0 to {SEEDS - 1}.")


def step_limit(suite: Suite, max_steps: int | None) -> int:
    """Return the episode's step limit: `max_steps`, else the suite's. Raises `BadOption`."""
    if max_steps is None:
        return suite.max_steps
    if max_steps < 1:
        raise BadOption(f"a step limit of {max_steps} plays nothing; wanted 1 or more")
    return max_steps
