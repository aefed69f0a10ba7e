# SPDX-License-Identifier: Apache-2.0
"""What `run` and `eval` are told of the programs that play: read once, for both of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec
import typer
from msgspec import Struct

from rpent_box.cli import flags
from rpent_box.cli.backend_help import render_backend_options
from rpent_box.cli.platform_help import render_platform_options
from rpent_box.cli.surroundings import Place, cache_dir, place_of_worker, runtime_dir
from rpent_box.cli.words import (
    backend_arguments,
    options_of,
    platform_arguments,
    platform_flags,
    split_platform_words,
)
from rpent_box.errors import UnknownName, UsageError
from rpent_box.evaluate.config import LauncherName, ProgramsConfig
from rpent_box.plugins import find_backend, find_platform
from rpent_box.sim.results import is_utf8
from rpent_box.worker.backend import Device


class ProgramWords(Struct, frozen=True, kw_only=True):
    """The parameters that both commands have, under the names that they have there."""

    backend: str | None
    checkpoint: str | None
    endpoint: str | None
    execute_steps: int | None
    predict_future: bool
    prediction_timeout: float | None
    device: Device | None
    cuda_device: str | None
    python: str | None
    root: str | None
    threads: int | None
    backend_option: tuple[str, ...] | None
    platform: str
    platform_python: str | None
    platform_cuda_device: str | None
    platform_option: tuple[str, ...] | None
    launcher: LauncherName
    build: bool
    start_timeout: float
    episode_timeout: float
    stall_timeout: float
    output: str


def programs_asked(context: typer.Context, environ: Mapping[str, str]) -> ProgramsConfig:
    """Return which programs shall play, by the parameters and left-over words of `context`.

    Raises `UsageError` and its kinds.
    """
    words = msgspec.convert(context.params, ProgramWords)
    plugin = find_platform(words.platform)
    backend = _choose_backend(words)
    of_platform, others = split_platform_words(plugin, context.args)
    place = Place(python=words.python, root=words.root)
    of_worker: tuple[str, ...] = ()
    if words.endpoint is None and backend is not None:
        place, of_worker = _worker(
            words, backend, others, [*options_of(context), *platform_flags(plugin)], environ
        )
    elif others or words.backend_option or words.predict_future:
        raise _options_of_a_borrowed_worker(words.endpoint)
    return ProgramsConfig(
        backend=backend,
        platform=words.platform,
        checkpoint=words.checkpoint,
        endpoint=words.endpoint,
        launcher=words.launcher,
        python=place.python,
        root=place.root,
        platform_python=words.platform_python,
        device=words.device,
        cuda_device=words.cuda_device,
        platform_cuda_device=words.platform_cuda_device,
        execute_steps=words.execute_steps,
        output_dir=words.output,
        backend_arguments=of_worker,
        platform_arguments=platform_arguments(
            plugin, words.platform_option or (), words=of_platform, environ=environ
        ),
        prediction_timeout_s=words.prediction_timeout,
        start_timeout_s=words.start_timeout,
        episode_timeout_s=words.episode_timeout,
        stall_timeout_s=words.stall_timeout,
        build=words.build,
        build_environ=dict(environ) if words.build else None,
        threads=words.threads,
        runtime_dir=runtime_dir(environ),
        cache_dir=cache_dir(environ),
        command=command_given(),
    )


def command_given() -> tuple[str, ...]:
    """Return the command line as it may be given again. Raises `UsageError` where it is no text."""
    for word in sys.argv[1:]:
        if not is_utf8(word):
            shown = word.encode("utf-8", "backslashreplace").decode()
            raise UsageError(
                f"{shown} is not UTF-8, so that it cannot be written down",
                hint="Name files and folders in UTF-8, in a UTF-8 locale: LC_ALL=C.UTF-8",
            )
    return ("rpent-box", *sys.argv[1:])


def show_help(context: typer.Context) -> None:
    """Print the command's help, the options of its platform, and those of a backend it names."""
    platform, backend = context.params["platform"], context.params["backend"]
    typer.echo(context.get_help())
    try:
        typer.echo(render_platform_options(find_platform(platform)))
    except UnknownName as error:
        # The default one may not be installed, and help is what leads on from there.
        typer.echo(str(error))
    if backend is not None:
        typer.echo(render_backend_options(find_backend(backend)))


def _choose_backend(words: ProgramWords) -> str | None:
    """Return the backend to run; None leaves it to whatever serves at the endpoint."""
    if words.endpoint is not None and words.checkpoint is not None:
        raise UsageError(
            "--endpoint and --checkpoint exclude each other: a worker that runs already has "
            "loaded its weights",
            hint="Leave one of them out.",
        )
    if words.backend is None and words.endpoint is None:
        return flags.DEFAULT_BACKEND
    return words.backend


def _worker(
    words: ProgramWords,
    backend: str,
    others: list[str],
    known: list[str],
    environ: Mapping[str, str],
) -> tuple[Place, tuple[str, ...]]:
    """Return where an owned worker runs, and the words for its own options."""
    spec = find_backend(backend)
    place = place_of_worker(
        spec, python=words.python, root=words.root, launcher=words.launcher, environ=environ
    )
    return place, backend_arguments(
        spec,
        words=others,
        pairs=words.backend_option or (),
        predict_future=words.predict_future,
        known=known,
        environ=environ,
    )


def _options_of_a_borrowed_worker(endpoint: str | None) -> UsageError:
    return UsageError(
        f"the worker at {endpoint} runs already and has its options",
        hint="Give backend options to rpent-box serve, or leave --endpoint out.",
    )
