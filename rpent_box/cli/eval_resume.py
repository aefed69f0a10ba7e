# SPDX-License-Identifier: Apache-2.0
"""`rpent-box eval --resume`: which evaluation goes on, and what of it may be done otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import typer
from msgspec.structs import replace

from rpent_box.cli import eval_words
from rpent_box.cli.asked import command_given
from rpent_box.cli.spellings import Command
from rpent_box.cli.surroundings import cache_dir, runtime_dir
from rpent_box.cli.words import (
    backend_arguments,
    options_of,
    platform_arguments,
    split_platform_words,
)
from rpent_box.errors import UsageError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.manifest import EVAL_FILE, read_eval_manifest
from rpent_box.plugins import find_backend, find_platform
from rpent_box.sim.manifest import MANIFEST_FILE
from rpent_box.sim.secrets import HIDDEN

MAY_CHANGE = {
    "envs": "envs",
    "pin": "pin",
    "max_wait_ms": "max_wait_ms",
    "ray": "ray",
    "ray_nodes": "ray_nodes",
    "launcher": "launcher",
    "python": "python",
    "root": "root",
    "platform_python": "platform_python",
    "cuda_device": "cuda_device",
    "platform_cuda_device": "platform_cuda_device",
    "build": "build",
    "endpoint": "endpoint",
    "prediction_timeout": "prediction_timeout_s",
    "start_timeout": "start_timeout_s",
    "episode_timeout": "episode_timeout_s",
    "stall_timeout": "stall_timeout_s",
}
"""How an evaluation is played: parameter of the command → field of its config. All else decides
what is played, or with what, and comes from the evaluation's folder. An endpoint is where to find
what is borrowed, and what is found there must be what it was."""
BACKENDS_OWN = frozenset({"backend_option", "predict_future"})
PLATFORMS_OWN = frozenset({"platform_option"})
NOT_OF_THE_CONFIG = frozenset(
    {
        *("resume", "output", "report", "dashboard", "dashboard_port", "metrics"),
        *("as_json", "quiet", "verbose", "show_help"),
    }
)
"""Where it is, and what is shown of it."""
READ: Mapping[str, Callable[[str], object]] = {
    "envs": eval_words.envs,
    "max_wait_ms": eval_words.max_wait_ms,
    "ray": eval_words.ray,
}
SHOWN = 5


class EvalCommand(Command):
    """A command whose `--resume` may stand without a word."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, eval_words.with_newest(args))


def resumed(
    context: typer.Context, environ: Mapping[str, str], *, named: str, output: str
) -> tuple[Path, EvalConfig]:
    """Return the folder of the evaluation that goes on, and its config with what changes.

    Raises `UsageError` for words that would change what is played, and where there is no such
    evaluation.
    """
    run_dir = find_evaluation(named, output)
    config = read_eval_manifest(run_dir).config
    given = _Given(context, config)
    given.refuse_what_is_fixed()
    config = replace(
        config,
        **given.changes(environ),
        command=command_given(),
        runtime_dir=runtime_dir(environ),
        cache_dir=cache_dir(environ),
    )
    return run_dir, replace(config, build_environ=dict(environ) if config.build else None)


def find_evaluation(named: str, output: str) -> Path:
    """Return the folder of an evaluation: `named` by its path, or by its name within `output`.

    Raises `UsageError`, which names those that are there.
    """
    folder = Path(output).expanduser().absolute()
    there = _evaluations(folder)
    if named == eval_words.NEWEST:
        if there:
            return there[0]
        raise UsageError(
            f"there is no evaluation in {folder}",
            hint="Name the folder of one: --resume RUN, or where they are: --output FOLDER",
        )
    for found in (Path(named).expanduser().absolute(), folder / named):
        if (found / EVAL_FILE).is_file():
            return found
        if (found / MANIFEST_FILE).is_file():
            raise UsageError(
                f"{found} is a run, and not an evaluation: there is nothing to resume",
                hint="Play its episodes anew: rpent-box run. What eval plays can be resumed.",
            )
    raise UsageError(
        f"there is no evaluation called {named}, here or in {folder}", hint=_what_there_is(there)
    )


def _evaluations(folder: Path) -> list[Path]:
    """Return the evaluations in `folder`, the newest first: their names begin with the time."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return []
    return [folder / name for name in names if (folder / name / EVAL_FILE).is_file()]


def _what_there_is(there: list[Path]) -> str:
    if not there:
        return "Give the folder that it was played into, which holds eval.json: --resume RUN"
    more = f", and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
    return f"There are: {', '.join(path.name for path in there[:SHOWN])}{more}"


class _Given:
    """What was given beside `--resume`."""

    def __init__(self, context: typer.Context, config: EvalConfig) -> None:
        self._context = context
        self._config = config
        self._plugin = find_platform(config.platform)
        self._names = [name for name in context.params if _is_given(context, name)]
        self._of_platform, self._of_backend = split_platform_words(self._plugin, context.args)

    def refuse_what_is_fixed(self) -> None:
        """Raise `UsageError` for what comes from the folder and is nevertheless given."""
        spelled = {option.name: option.opts[0] for option in self._context.command.params}
        free = {*MAY_CHANGE, *NOT_OF_THE_CONFIG} - set(self._unless_borrowed())
        words: list[str] = []
        if self._backend_again:
            free |= BACKENDS_OWN
        else:
            words += self._of_backend
        if self._platform_again:
            free |= PLATFORMS_OWN
        else:
            words += [word for word in self._context.args if word not in self._of_backend]
        fixed = [spelled[name] for name in self._names if name not in free]
        # Words that are none of ours are options of the backend or the platform.
        fixed += [word.split("=")[0] for word in words if word.startswith("--")] or words
        if fixed:
            raise UsageError(
                f"--resume excludes {', '.join(fixed)}: what an evaluation plays, and with what, "
                "comes from its folder",
                hint="Leave it out, or leave --resume out to begin another evaluation.",
            )

    def changes(self, environ: Mapping[str, str]) -> dict[str, object]:
        """Return the fields of the config that are otherwise this time."""
        params = self._context.params
        found = {
            MAY_CHANGE[name]: READ.get(name, _as_it_is)(params[name])
            for name in self._names
            if name in MAY_CHANGE
        }
        if "ray" in found and found["ray"] is None:
            found["ray_nodes"] = None
        if self._backend_again and self._config.backend is not None:
            found["backend_arguments"] = backend_arguments(
                find_backend(self._config.backend),
                words=self._of_backend,
                pairs=params["backend_option"] or (),
                predict_future=params["predict_future"],
                known=options_of(self._context),
                environ=environ,
            )
        if self._platform_again:
            found["platform_arguments"] = platform_arguments(
                self._plugin,
                params["platform_option"] or (),
                words=self._of_platform,
                environ=environ,
            )
        return found

    @property
    def _backend_again(self) -> bool:
        """A secret is never written down: only what held one can be given again, and must be."""
        return _has_hidden(self._config.backend_arguments)

    @property
    def _platform_again(self) -> bool:
        return _has_hidden(self._config.platform_arguments)

    def _unless_borrowed(self) -> tuple[str, ...]:
        return ("endpoint",) if self._config.endpoint is None else ()


def _has_hidden(words: tuple[str, ...]) -> bool:
    return any(HIDDEN in word for word in words)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _as_it_is(value: object) -> object:
    return value
