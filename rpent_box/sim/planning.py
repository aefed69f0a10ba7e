# SPDX-License-Identifier: Apache-2.0
"""Which episodes a run plays, checked against what the platform offers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control_messages import Video
from rpent_box.errors import BadCheckpoint, BadOption, BrokenPlugin, UnknownName, UsageError
from rpent_box.plugins import installed_platforms
from rpent_box.sim.platform import PlatformPlugin, Scene, Suite

SEEDS = 1 << 32
MOST_EPISODES = 1_000_000
"""Of one run. Each is looked at before anything starts."""


def find_suite(plugin: PlatformPlugin, name: str | None) -> Suite:
    """Return the suite called `name`, or the default one for None.

    Raises `UnknownName`, `UsageError` for a suite that is known but cannot be played here, and
    `BrokenPlugin` for one that contradicts itself.
    """
    wanted = plugin.default_suite if name is None else name
    for suite in plugin.suites:
        if suite.name == wanted:
            break
    else:
        raise UnknownName(
            f"{plugin.name} has no suite called {wanted}",
            hint=_where_else(plugin, wanted),
        )
    if suite.unavailable:
        raise UsageError(
            f"suite {wanted} of {plugin.name} cannot be played: {suite.unavailable}",
            hint=f"See: rpent-box list --platform {plugin.name}",
        )
    if suite.task_max_steps and len(suite.task_max_steps) != len(suite.tasks):
        raise BrokenPlugin(
            f"suite {wanted} of {plugin.name} has {len(suite.tasks)} tasks and "
            f"{len(suite.task_max_steps)} step limits of tasks; wanted one each, or none",
            hint="This is a defect of the platform's plugin: please tell its author.",
        )
    return suite


def platform_of_suite(name: str) -> str:
    """Return the first installed platform with a suite called `name`; empty where there is none."""
    for plugin in installed_platforms():
        if name in (suite.name for suite in plugin.suites):
            return plugin.name
    return ""


def read_task(text: str) -> int | str:
    """Return a task as it was written: its index where that is a number, else its name."""
    try:
        return int(text)
    except ValueError:
        return text


def find_task(suite: Suite, task: int | str) -> int:
    """Return the index of `task`, which is its index or its name. Raises `UnknownName`."""
    if isinstance(task, str) and task in suite.tasks:
        return suite.tasks.index(task)
    if isinstance(task, int) and 0 <= task < len(suite.tasks):
        return task
    close = _closest(task, suite.tasks) if isinstance(task, str) else ""
    raise UnknownName(
        f"suite {suite.name} has no task {task}",
        hint=f"{close or f'Its tasks are 0 to {len(suite.tasks) - 1}.'} "
        f"See: rpent-box list --suite {suite.name}",
    )


def check_episodes(suite: Suite, *, first_init_state: int | None, episodes: int) -> int:
    """Return the init state of the first episode: `first_init_state`, else the suite's first.

    Raises `BadOption` unless every episode gets an init state of its own.
    """
    first = suite.first_init_state if first_init_state is None else first_init_state
    if not 1 <= episodes <= MOST_EPISODES:
        raise BadOption(f"{episodes} episodes cannot be played; wanted 1 to {MOST_EPISODES}")
    if suite.init_states:
        _check_recorded(suite, first, episodes)
    elif first < 0 or first + episodes > SEEDS:
        raise BadOption(
            f"{episodes} episodes from init state {first} were asked for; in {suite.name} they are "
            f"seeds, from 0 to {SEEDS - 1}",
            hint=f"Choose --first-init-state from 0, e.g. {suite.first_init_state}.",
        )
    return first


def check_seed(seed: int) -> int:
    """Return `seed` when it fits numpy's 32 bits, which simulators use. Raises `BadOption`."""
    if 0 <= seed < SEEDS:
        return seed
    raise BadOption(f"{seed} is no seed", hint=f"Choose --seed from 0 to {SEEDS - 1}.")


def check_shown(video: Video, *, show_predictions: bool) -> None:
    """Raise `UsageError` where predictions are to be drawn into videos that nobody asks for."""
    if show_predictions and video == "none":
        raise UsageError(
            "--show-predictions draws into videos, and none will be written",
            hint="Say which: --video all, or --video failures.",
        )


def step_limit(suite: Suite, task: int, max_steps: int | None) -> int:
    """Return the step limit of an episode of `task`: `max_steps`, else the task's or the suite's.

    Raises `BadOption`.
    """
    if max_steps is None:
        return suite.task_max_steps[task] if suite.task_max_steps else suite.max_steps
    if max_steps < 1:
        raise BadOption(f"a step limit of {max_steps} plays nothing; wanted 1 or more")
    return max_steps


def require_assets(plugin: PlatformPlugin, options: Struct, scenes: Sequence[Scene]) -> None:
    """Let the platform look for what `options` name and `scenes` need, before anything starts.

    Raises what it raises: `AssetsMissing`, `BadOption`, `UnknownName`.
    """
    if plugin.require is not None:
        plugin.require(options)
    if plugin.require_scenes is not None:
        plugin.require_scenes(options, scenes)


def require_suite(manifest: CheckpointManifest, suite: Suite) -> None:
    """Raise `BadCheckpoint` when `manifest` is tied to suites, and `suite` is none of them.

    A variant of a suite counts as that suite: it is there to be played by what was trained for it.
    """
    require_tied(manifest.checkpoint, manifest.suites, suite)


def require_tied(checkpoint: str, tied: tuple[str, ...], suite: Suite) -> None:
    """Do as `require_suite` for a checkpoint that is known by name, with the suites of its tie."""
    if not tied or suite.name in tied or (suite.variant_of and suite.variant_of in tied):
        return
    variant = f", a variant of {suite.variant_of}" if suite.variant_of else ""
    raise BadCheckpoint(
        f"the checkpoint {checkpoint} was trained on {', '.join(tied)}; "
        f"you asked for {suite.name}{variant}",
        hint=f"Play {tied[0]}: {_words_for(tied[0])}, or give the checkpoint of "
        f"{suite.variant_of or suite.name}.",
    )


def _check_recorded(suite: Suite, first: int, episodes: int) -> None:
    start, end = suite.first_init_state, suite.first_init_state + suite.init_states
    if first < start:
        raise BadOption(f"there is no init state {first}; the first is {start}")
    # Playing a state twice would count one result twice.
    if first + episodes > end:
        raise BadOption(
            f"{episodes} episodes from init state {first} were asked for, but "
            f"{suite.name} has {suite.init_states} init states per task and each is played once",
            hint=f"Choose --episodes up to {end - first}."
            if end > first
            else f"Choose --first-init-state up to {end - 1}.",
        )


def _closest(wanted: str, known: list[str] | tuple[str, ...]) -> str:
    """Return a question that names what `wanted` may have meant; empty where nothing is close."""
    close = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    return f"Did you mean {', '.join(close)}?" if close else ""


def _words_for(suite: str) -> str:
    """Return how `suite` is asked for, with its platform where that is installed."""
    platform = platform_of_suite(suite)
    return f"--platform {platform} --suite {suite}" if platform else f"--suite {suite}"


def _where_else(plugin: PlatformPlugin, wanted: str) -> str:
    other = platform_of_suite(wanted)
    if other:
        return f"It is a suite of {other}: --platform {other}."
    playable = [suite.name for suite in plugin.suites if not suite.unavailable]
    known = _closest(wanted, playable) or f"Suites of {plugin.name}: {', '.join(playable)}."
    return f"{known} See: rpent-box list --platform {plugin.name}"
