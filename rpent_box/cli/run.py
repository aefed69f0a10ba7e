# SPDX-License-Identifier: Apache-2.0
"""`rpent-box run`: play episodes of one task with one model."""

from __future__ import annotations

import os
import sys

import typer
from msgspec.structs import asdict

from rpent_box.cli import flags, play_flags, run_flags
from rpent_box.cli.asked import programs_asked
from rpent_box.cli.asked import show_help as show_whole_help
from rpent_box.cli.border import border, print_json
from rpent_box.cli.progress import watch
from rpent_box.cli.show_run import render_summary
from rpent_box.evaluate.config import RunConfig
from rpent_box.sim.planning import read_task


def run(
    context: typer.Context,
    backend: play_flags.Backend = None,
    checkpoint: flags.Checkpoint = None,
    endpoint: play_flags.Endpoint = None,
    execute_steps: play_flags.ExecuteSteps = None,
    predict_future: flags.PredictFuture = False,
    prediction_timeout: play_flags.PredictionTimeout = None,
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
    first_init_state: play_flags.FirstInitState = None,
    seed: run_flags.Seed = 7,
    max_steps: play_flags.MaxSteps = None,
    platform_python: play_flags.PlatformPython = None,
    platform_cuda_device: play_flags.PlatformCudaDevice = None,
    platform_option: play_flags.PlatformOption = None,
    launcher: flags.Launcher = "auto",
    build: flags.Build = False,
    start_timeout: flags.StartTimeout = 600.0,
    episode_timeout: play_flags.EpisodeTimeout = 3600.0,
    stall_timeout: play_flags.StallTimeout = 600.0,
    output: flags.Output = "runs",
    video: run_flags.Video = None,
    show_predictions: play_flags.ShowPredictions = False,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
    show_help: play_flags.Help = False,
) -> None:
    """Play episodes of one task and report success, steps and where the time went."""
    with border(verbose=verbose, as_json=as_json):
        if show_help:
            show_whole_help(context)
            return
        # What programs play is read from the context, as `eval` does.
        programs = programs_asked(context, os.environ)
        config = RunConfig(
            suite=suite,
            task=read_task(task),
            episodes=episodes,
            first_init_state=first_init_state,
            seed=seed,
            max_steps=max_steps,
            video=video,
            show_predictions=show_predictions,
            **asdict(programs),
        )
        _play(config, as_json=as_json, quiet=quiet)


def _play(config: RunConfig, *, as_json: bool, quiet: bool) -> None:
    # Late: it reaches the Docker SDK, which `--help` should not wait for.
    from rpent_box.evaluate.run import run_episodes

    with watch(episodes=config.episodes, quiet=quiet) as watcher:
        summary = run_episodes(config, watcher)
    if as_json:
        print_json(summary)
    else:
        sys.stdout.write(render_summary(summary))
