# SPDX-License-Identifier: Apache-2.0
"""`rpent-box run`: play episodes of one task with one model."""

from __future__ import annotations

import os
import sys

import typer

from rpent_box.cli import flags, run_flags
from rpent_box.cli.backend_help import render_backend_options
from rpent_box.cli.border import border
from rpent_box.cli.platform_help import render_platform_options
from rpent_box.cli.progress import watch
from rpent_box.cli.show_run import render_summary
from rpent_box.cli.surroundings import Place, cache_dir, place_of_worker, runtime_dir
from rpent_box.cli.words import (
    backend_arguments,
    options_of,
    platform_arguments,
    platform_flags,
    split_platform_words,
)
from rpent_box.errors import UnknownName, UsageError
from rpent_box.evaluate.config import RunConfig
from rpent_box.evaluate.summary import to_json
from rpent_box.plugins import find_backend, find_platform
from rpent_box.sim.planning import read_task


def run(
    context: typer.Context,
    backend: run_flags.Backend = None,
    checkpoint: flags.Checkpoint = None,
    endpoint: run_flags.Endpoint = None,
    execute_steps: run_flags.ExecuteSteps = None,
    predict_future: flags.PredictFuture = False,
    prediction_timeout: run_flags.PredictionTimeout = None,
    device: flags.Device = None,
    cuda_device: flags.CudaDevice = None,
    python: flags.Python = None,
    root: flags.Root = None,
    threads: flags.Threads = None,
    backend_option: flags.BackendOption = None,
    platform: flags.Platform = flags.DEFAULT_PLATFORM,
    suite: run_flags.Suite = None,
    task: run_flags.Task = "0",
    episodes: run_flags.Episodes = 1,
    first_init_state: run_flags.FirstInitState = None,
    seed: run_flags.Seed = 7,
    max_steps: run_flags.MaxSteps = None,
    platform_python: run_flags.PlatformPython = None,
    platform_cuda_device: run_flags.PlatformCudaDevice = None,
    platform_option: run_flags.PlatformOption = None,
    launcher: flags.Launcher = "auto",
    build: flags.Build = False,
    start_timeout: flags.StartTimeout = 600.0,
    episode_timeout: run_flags.EpisodeTimeout = 3600.0,
    stall_timeout: run_flags.StallTimeout = 600.0,
    output: flags.Output = "runs",
    video: run_flags.Video = None,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
    show_help: run_flags.Help = False,
) -> None:
    """Play episodes of one task and report success, steps and where the time went."""
    with border(verbose=verbose, as_json=as_json):
        if show_help:
            _show_help(context, platform, backend)
            return
        plugin = find_platform(platform)
        chosen = _choose_backend(backend, endpoint=endpoint, checkpoint=checkpoint)
        platform_words, words = split_platform_words(plugin, context.args)
        place = Place(python=python, root=root)
        worker_words: tuple[str, ...] = ()
        if endpoint is None and chosen is not None:
            spec = find_backend(chosen)
            place = place_of_worker(
                spec, python=python, root=root, launcher=launcher, environ=os.environ
            )
            worker_words = backend_arguments(
                spec,
                words=words,
                pairs=backend_option or [],
                predict_future=predict_future,
                known=[*options_of(context), *platform_flags(plugin)],
                environ=os.environ,
            )
        elif words or backend_option or predict_future:
            raise _options_of_a_borrowed_worker(endpoint)
        config = RunConfig(
            backend=chosen,
            platform=platform,
            suite=suite,
            task=read_task(task),
            episodes=episodes,
            first_init_state=first_init_state,
            seed=seed,
            checkpoint=checkpoint,
            endpoint=endpoint,
            launcher=launcher,
            python=place.python,
            root=place.root,
            platform_python=platform_python,
            device=device,
            cuda_device=cuda_device,
            platform_cuda_device=platform_cuda_device,
            execute_steps=execute_steps,
            max_steps=max_steps,
            video=video,
            output_dir=output,
            backend_arguments=worker_words,
            platform_arguments=platform_arguments(
                plugin, platform_option or [], words=platform_words, environ=os.environ
            ),
            prediction_timeout_s=prediction_timeout,
            start_timeout_s=start_timeout,
            episode_timeout_s=episode_timeout,
            stall_timeout_s=stall_timeout,
            build=build,
            build_environ=dict(os.environ) if build else None,
            threads=threads,
            runtime_dir=runtime_dir(os.environ),
            cache_dir=cache_dir(os.environ),
            command=("rpent-box", *sys.argv[1:]),
        )
        _play(config, as_json=as_json, quiet=quiet)


def _show_help(context: typer.Context, platform: str, backend: str | None) -> None:
    typer.echo(context.get_help())
    try:
        typer.echo(render_platform_options(find_platform(platform)))
    except UnknownName as error:
        # The default one may not be installed, and help is what leads on from there.
        typer.echo(str(error))
    if backend is not None:
        typer.echo(render_backend_options(find_backend(backend)))


def _play(config: RunConfig, *, as_json: bool, quiet: bool) -> None:
    # Late: it reaches the Docker SDK, which `--help` should not wait for.
    from rpent_box.evaluate.run import run_episodes

    with watch(episodes=config.episodes, quiet=quiet) as watcher:
        summary = run_episodes(config, watcher)
    text = to_json(summary).decode() + "\n" if as_json else render_summary(summary)
    sys.stdout.write(text)


def _choose_backend(
    backend: str | None, *, endpoint: str | None, checkpoint: str | None
) -> str | None:
    """Return the backend to run; None leaves it to whatever serves at `endpoint`."""
    if endpoint is not None and checkpoint is not None:
        raise UsageError(
            "--endpoint and --checkpoint exclude each other: a worker that runs already has "
            "loaded its weights",
            hint="Leave one of them out.",
        )
    if backend is None and endpoint is None:
        return flags.DEFAULT_BACKEND
    return backend


def _options_of_a_borrowed_worker(endpoint: str | None) -> UsageError:
    return UsageError(
        f"the worker at {endpoint} runs already and has its options",
        hint="Give backend options to rpent-box serve, or leave --endpoint out.",
    )
