# SPDX-License-Identifier: Apache-2.0
"""What can be known to be wrong with an evaluation before anything is started."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import asdict

from rpent_box.errors import BadOption, UsageError
from rpent_box.evaluate.checking import CheckedPrograms, check_programs, from_anywhere
from rpent_box.evaluate.config import THREADS
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.plan import EvalPlan, Job, TaskPlan
from rpent_box.plugins import find_platform
from rpent_box.sim.planning import (
    MOST_EPISODES,
    check_episodes,
    check_seed,
    check_shown,
    find_suite,
    find_task,
    require_assets,
    step_limit,
)
from rpent_box.sim.platform import PlatformPlugin, Suite
from rpent_box.sim.secrets import HIDDEN

MOST_ENVS = 1024
"""Simulators of one machine. More is a slip of the hand."""
MOST_BATCH = 1024
MOST_WAIT_MS = 60_000.0

One = TypeVar("One", bound=Hashable)


class CheckedEvaluation(CheckedPrograms, frozen=True, kw_only=True):
    """What an evaluation's config asks for, resolved and found to be sound."""

    suites: tuple[Suite, ...]
    plan: EvalPlan
    config: EvalConfig
    """As asked, with absolute paths."""


def check_evaluation(config: EvalConfig) -> CheckedEvaluation:
    """Return what `config` asks for, by name.

    Raises `UsageError` and its kinds, and `AssetsMissing` where the platform lacks what it draws.
    """
    _require_no_hidden(config)
    plugin = find_platform(config.platform)
    suites = _suites(plugin, config.suites)
    seeds = _seeds(config.seeds)
    tasks = tuple(task for suite in suites for task in _tasks(suite, config))
    _check_count(tasks, seeds)
    _check_scale(config)
    check_shown(config.video, show_predictions=config.show_predictions)
    programs = check_programs(config)
    config = from_anywhere(config, programs)
    plan = _plan(config, programs, tasks, seeds)
    jobs = plan.jobs()
    require_unique(jobs)
    # Last: assets that are missing are no wrong usage, and take long to fetch.
    require_assets(plugin, programs.platform_options, [job.scene for job in jobs])
    return CheckedEvaluation(suites=suites, plan=plan, config=config, **asdict(programs))


def require_unique(jobs: Sequence[Job]) -> None:
    """Raise `UsageError` when two of `jobs` would be the same episode, or share a folder.

    It follows from what was checked of suites, tasks and seeds; a score that counts an episode
    twice shows in nothing else, so it is looked at all the same.
    """
    for what, seen in (("key", [job.key for job in jobs]), ("folder", [j.episode for j in jobs])):
        twice = _twice(seen)
        if twice:
            raise UsageError(
                f"{len(twice)} episodes of this evaluation have another one's {what}, the first of "
                f"them {twice[0]}: each may be played once",
                hint="This is a defect of rpent-box: please tell us the command.",
            )


def _require_no_hidden(config: EvalConfig) -> None:
    """Refuse words that were read from `eval.json`, where a secret stands hidden."""
    words = (config.endpoint or "", *config.backend_arguments, *config.platform_arguments)
    hidden = [word for word in words if HIDDEN in word]
    if hidden:
        raise UsageError(
            f"{' '.join(hidden)}: a secret was there that is never written down",
            hint="Give the options of that program again, all of them, beside --resume; best with "
            "the secret in a file from now on.",
        )


def _plan(
    config: EvalConfig,
    programs: CheckedPrograms,
    tasks: tuple[TaskPlan, ...],
    seeds: tuple[int, ...],
) -> EvalPlan:
    spec, needs = programs.spec, programs.needs
    return EvalPlan(
        platform=programs.plugin.name,
        tasks=tasks,
        seeds=seeds,
        execute_steps=config.execute_steps,
        video=config.video,
        show_predictions=config.show_predictions,
        backend=spec.name if spec is not None else None,
        checkpoint=config.checkpoint,
        device=needs.device if needs is not None else None,
        threads=(config.threads or THREADS) if needs is not None else None,
        endpoint=config.endpoint,
        backend_arguments=config.backend_arguments,
        platform_arguments=programs.platform_words,
        prediction_timeout_s=config.prediction_timeout_s,
    )


def _suites(plugin: PlatformPlugin, names: tuple[str, ...]) -> tuple[Suite, ...]:
    suites = tuple(find_suite(plugin, name) for name in names) or (find_suite(plugin, None),)
    twice = _twice(suite.name for suite in suites)
    if twice:
        raise BadOption(
            f"--suite names {', '.join(twice)} more than once; each is played once",
            hint="To play its episodes again under other noise, give further seeds: --seed 7,8.",
        )
    return suites


def _tasks(suite: Suite, config: EvalConfig) -> list[TaskPlan]:
    first = check_episodes(
        suite, first_init_state=config.first_init_state, episodes=config.episodes
    )
    return [
        TaskPlan(
            suite=suite.name,
            task=task,
            name=suite.tasks[task],
            first_init_state=first,
            episodes=config.episodes,
            max_steps=step_limit(suite, task, config.max_steps),
        )
        for task in _chosen(suite, config.tasks)
    ]


def _chosen(suite: Suite, wanted: tuple[int | str, ...]) -> list[int]:
    """Return the indices of the tasks of `suite` to play, in the order in which they are named."""
    if not suite.tasks:
        raise UsageError(f"suite {suite.name} has no task")
    tasks = [find_task(suite, task) for task in wanted] or list(range(len(suite.tasks)))
    twice = _twice(tasks)
    if twice:
        names = ", ".join(f"{task} ({suite.tasks[task]})" for task in twice)
        raise BadOption(
            f"--task names {names} of {suite.name} more than once; each is played once",
            hint="An index and a name may mean the same task. "
            f"See: rpent-box list --suite {suite.name}",
        )
    return tasks


def _seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds:
        raise BadOption("there is no seed", hint="Give one or more, e.g. --seed 7.")
    for seed in seeds:
        check_seed(seed)
    twice = _twice(seeds)
    if twice:
        raise BadOption(
            f"--seed names {', '.join(map(str, twice))} more than once: that would count the same "
            "episodes twice",
            hint="Give each seed once.",
        )
    return seeds


def _check_count(tasks: Sequence[TaskPlan], seeds: Sequence[int]) -> None:
    jobs = sum(task.episodes for task in tasks) * len(seeds)
    if jobs > MOST_EPISODES:
        per_task = MOST_EPISODES // (len(tasks) * len(seeds))
        raise BadOption(
            f"{len(tasks)} tasks with {len(seeds)} seeds come to {jobs} episodes; one evaluation "
            f"plays at most {MOST_EPISODES}",
            hint=f"Choose --episodes up to {per_task}, or fewer tasks or seeds."
            if per_task
            else "Choose fewer tasks or seeds.",
        )


def _check_scale(config: EvalConfig) -> None:
    if config.envs is not None and not 1 <= config.envs <= MOST_ENVS:
        raise BadOption(
            f"{config.envs} simulators cannot play; wanted 1 to {MOST_ENVS}, or --envs auto"
        )
    if config.ray_nodes is not None and config.ray_nodes < 1:
        raise BadOption(f"--ray-nodes {config.ray_nodes} plays nowhere; wanted 1 or more")
    if config.ray_nodes is not None and config.ray is None:
        raise UsageError("--ray-nodes is about a cluster", hint="Add --ray auto, or leave it out.")
    if config.endpoint is not None:
        _check_borrowed(config)
    if config.max_batch is not None and not 1 <= config.max_batch <= MOST_BATCH:
        raise BadOption(f"--max-batch {config.max_batch} cannot be kept; wanted 1 to {MOST_BATCH}")
    wait_ms = config.max_wait_ms
    if wait_ms is not None and not (math.isfinite(wait_ms) and 0 <= wait_ms <= MOST_WAIT_MS):
        raise BadOption(
            f"--max-wait-ms {wait_ms} cannot be kept; wanted 0 to {MOST_WAIT_MS:.0f}",
            hint="Leave it out: the worker finds a good one by itself.",
        )


def _check_borrowed(config: EvalConfig) -> None:
    owned_only = {
        "--max-batch": config.max_batch,
        "--max-wait-ms": config.max_wait_ms,
        "--ray": config.ray,
    }
    given = [name for name, value in owned_only.items() if value is not None]
    if given:
        raise UsageError(
            f"--endpoint excludes {', '.join(given)}: the worker at {config.endpoint} runs already",
            hint="Leave one of them out. How a worker batches is said where it is started: "
            "rpent-box serve",
        )


def _twice(values: Iterable[One]) -> list[One]:
    """Return those that come more than once, each once, in the order of their first coming."""
    return [value for value, count in Counter(values).items() if count > 1]
