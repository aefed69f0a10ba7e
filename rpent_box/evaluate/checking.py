# SPDX-License-Identifier: Apache-2.0
"""What can be known to be wrong before anything is started."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from rpent_box.errors import BadOption, UsageError
from rpent_box.evaluate.config import THREADS, LauncherName, ProgramsConfig, RunConfig
from rpent_box.launch.given_paths import with_whole_paths
from rpent_box.launch.recipe import run_command
from rpent_box.launch.simulator import whole_options
from rpent_box.launch.worker import check_files
from rpent_box.options import parse_options
from rpent_box.plugins import find_backend, find_platform, fitting_backends
from rpent_box.sim.manifest import Plan
from rpent_box.sim.planning import (
    check_episodes,
    check_seed,
    check_shown,
    find_suite,
    find_task,
    require_assets,
    step_limit,
)
from rpent_box.sim.platform import PlatformPlugin, Suite
from rpent_box.transport.paths import check_endpoint
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.needs import Needs, needs_of

ConfigT = TypeVar("ConfigT", bound=ProgramsConfig)


class CheckedPrograms(Struct, frozen=True, kw_only=True):
    """Which programs play, resolved and found to be sound."""

    plugin: PlatformPlugin
    spec: BackendSpec | None
    """None: a borrowed worker whose backend was not named."""
    needs: Needs | None
    """None: the worker is borrowed."""
    launcher: LauncherName
    fitting: tuple[str, ...]
    """Installed backends that speak one of the platform's action spaces."""
    platform_words: tuple[str, ...]
    """Of the platform's own options, with absolute paths."""
    platform_options: Struct
    """The same, read: an instance of `plugin.options`."""


class Checked(CheckedPrograms, frozen=True, kw_only=True):
    """What a run's config asks for, resolved and found to be sound."""

    suite: Suite
    plan: Plan


def check_programs(config: ProgramsConfig) -> CheckedPrograms:
    """Return which programs `config` asks for. Raises `UsageError` and its kinds."""
    plugin = find_platform(config.platform)
    _check_numbers(config)
    fitting = fitting_backends({control.action_space for control in plugin.meta.controls})
    spec, needs = _check_worker(config, plugin, fitting)
    launcher = _check_launcher(config)
    platform_words, _ = whole_options(plugin, config.platform_arguments)
    return CheckedPrograms(
        plugin=plugin,
        spec=spec,
        needs=needs,
        launcher=launcher,
        fitting=fitting,
        platform_words=tuple(platform_words),
        platform_options=parse_options(plugin.options, platform_words, program=run_command(plugin)),
    )


def from_anywhere(config: ConfigT, programs: CheckedPrograms) -> ConfigT:
    """Return `config`, which `programs` were found by, so that it means the same from any folder.

    It is written down, and whoever reads it may stand elsewhere: all its paths are absolute.
    """
    words, spec = config.backend_arguments, programs.spec
    if spec is not None:
        program = f"rpent-box serve {spec.name}"
        words = tuple(with_whole_paths(spec.options, words, program=program)[0])
    is_name = spec is not None and spec.checkpoint_is == "name"
    return replace(
        config,
        checkpoint=config.checkpoint if is_name else _whole(config.checkpoint),
        python=_whole_program(config.python),
        root=_whole(config.root),
        platform_python=_whole_program(config.platform_python),
        output_dir=_whole(config.output_dir),
        runtime_dir=_whole(config.runtime_dir),
        cache_dir=_whole(config.cache_dir),
        backend_arguments=words,
        platform_arguments=programs.platform_words,
    )


def _whole(path: str | None) -> str | None:
    return None if path is None else str(Path(os.path.expanduser(path)).absolute())


def _whole_program(path: str | None) -> str | None:
    # A name without a folder is looked for where programs are.
    return path if path is None or os.sep not in path else _whole(path)


def check(config: RunConfig) -> Checked:
    """Return what `config` asks for, by name.

    Raises `UsageError` and its kinds, and `AssetsMissing` where the platform lacks what it draws.
    """
    plugin = find_platform(config.platform)
    suite = find_suite(plugin, config.suite)
    task = find_task(suite, config.task)
    first = check_episodes(
        suite, first_init_state=config.first_init_state, episodes=config.episodes
    )
    programs = check_programs(config)
    config = from_anywhere(config, programs)
    spec, needs = programs.spec, programs.needs
    video = config.video or ("all" if config.episodes == 1 else "none")
    check_shown(video, show_predictions=config.show_predictions)
    plan = Plan(
        platform=plugin.name,
        suite=suite.name,
        task=task,
        task_name=suite.tasks[task],
        episodes=config.episodes,
        first_init_state=first,
        seed=check_seed(config.seed),
        max_steps=step_limit(suite, task, config.max_steps),
        execute_steps=config.execute_steps,
        video=video,
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
    # Last: assets that are missing are no wrong usage, and take long to fetch.
    require_assets(plugin, programs.platform_options, plan.scenes())
    return Checked(suite=suite, plan=plan, **asdict(programs))


def _check_worker(
    config: ProgramsConfig, plugin: PlatformPlugin, fitting: tuple[str, ...]
) -> tuple[BackendSpec | None, Needs | None]:
    if config.endpoint is not None:
        _check_borrowed(config)
        return find_backend(config.backend) if config.backend is not None else None, None
    if config.backend is None:
        raise UsageError(
            "a run needs a backend to start or the endpoint of one that runs",
            hint="Give --backend NAME or --endpoint ADDRESS. See: rpent-box list",
        )
    spec = find_backend(config.backend)
    if plugin.name not in spec.platforms:
        raise BadOption(
            f"{spec.name} has no adapter for {plugin.name}; it has for: "
            f"{', '.join(spec.platforms)}",
            hint=f"Backends that fit {plugin.name}: {', '.join(fitting) or 'none installed'}. "
            "See: rpent-box list",
        )
    words, program = config.backend_arguments, f"rpent-box serve {spec.name}"
    needs = needs_of(
        spec,
        parse_options(spec.options, words, program=program),
        checkpoint=config.checkpoint,
        device=config.device,
        cuda_device=config.cuda_device,
    )
    check_files(spec, config.checkpoint, words)
    return spec, needs


def _check_borrowed(config: ProgramsConfig) -> None:
    owned_only = {
        "--checkpoint": config.checkpoint,
        "--python": config.python,
        "--root": config.root,
        "--device": config.device,
        "--cuda-device": config.cuda_device,
        "--threads": config.threads,
        "backend options": config.backend_arguments or None,
    }
    given = [name for name, value in owned_only.items() if value is not None]
    check_endpoint(config.endpoint or "")
    if given:
        raise UsageError(
            f"--endpoint excludes {', '.join(given)}: the worker at {config.endpoint} runs already",
            hint="Leave one of them out.",
        )


def _check_launcher(config: ProgramsConfig) -> LauncherName:
    """Return the launcher to choose from; an interpreter or a folder only suits processes."""
    process_only = {
        "--python": config.python,
        "--root": config.root,
        "--platform-python": config.platform_python,
    }
    given = [name for name, value in process_only.items() if value is not None]
    if given and config.launcher == "docker":
        raise UsageError(
            f"{', '.join(given)} cannot be used with containers: an image brings its own",
            hint="Leave it out, or choose --launcher process.",
        )
    return "process" if given else config.launcher


def _check_numbers(config: ProgramsConfig) -> None:
    if config.execute_steps is not None and config.execute_steps < 1:
        raise BadOption(f"{config.execute_steps} execute steps play nothing; wanted 1 or more")
    if config.threads is not None and config.threads < 1:
        raise BadOption(f"{config.threads} threads compute nothing; wanted 1 or more")
    limits = {
        "--start-timeout": config.start_timeout_s,
        "--episode-timeout": config.episode_timeout_s,
        "--stall-timeout": config.stall_timeout_s,
        "--prediction-timeout": config.prediction_timeout_s,
    }
    for name, limit_s in limits.items():
        if limit_s is not None and not (math.isfinite(limit_s) and limit_s > 0):
            raise BadOption(f"{name} {limit_s} cannot be kept; wanted seconds above 0")
