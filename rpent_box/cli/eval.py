# SPDX-License-Identifier: Apache-2.0
"""`rpent-box eval`: score whole suites with one model, on many simulators at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer
from msgspec import Struct
from msgspec.structs import asdict

from rpent_box.cli import eval_flags, eval_words, flags, play_flags
from rpent_box.cli.asked import programs_asked
from rpent_box.cli.asked import show_help as show_whole_help
from rpent_box.cli.border import NOT_COMPLETED, border, print_json
from rpent_box.cli.eval_progress import Showing
from rpent_box.cli.eval_resume import resumed
from rpent_box.cli.eval_watched import watched
from rpent_box.cli.show_eval import (
    read_ended,
    render_evaluation,
    report_command,
)
from rpent_box.cli.tables import labelled
from rpent_box.errors import RpentBoxError
from rpent_box.evaluate.scale.config import DEFAULT_EPISODES, DEFAULT_SEED, EvalConfig
from rpent_box.evaluate.scale.summary import EvalSummary
from rpent_box.evaluate.scale.watcher import EvalWatcher
from rpent_box.report.write import write_report


def eval_(
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
    suite: eval_flags.Suite = None,
    task: eval_flags.Task = None,
    episodes: eval_flags.Episodes = DEFAULT_EPISODES,
    first_init_state: play_flags.FirstInitState = None,
    seed: eval_flags.Seed = None,
    max_steps: play_flags.MaxSteps = None,
    platform_python: play_flags.PlatformPython = None,
    platform_cuda_device: play_flags.PlatformCudaDevice = None,
    platform_option: play_flags.PlatformOption = None,
    envs: eval_flags.Envs = eval_words.AUTO,
    pin: eval_flags.Pin = True,
    max_batch: flags.MaxBatch = None,
    max_wait_ms: flags.MaxWaitMs = eval_words.AUTO,
    ray: eval_flags.Ray = None,
    ray_nodes: eval_flags.RayNodes = None,
    launcher: flags.Launcher = "auto",
    build: flags.Build = False,
    start_timeout: flags.StartTimeout = 600.0,
    episode_timeout: play_flags.EpisodeTimeout = 3600.0,
    stall_timeout: play_flags.StallTimeout = 600.0,
    dashboard: eval_flags.Dashboard = False,
    dashboard_port: eval_flags.DashboardPort = None,
    metrics: flags.Metrics = None,
    output: flags.Output = "runs",
    resume: eval_flags.Resume = None,
    video: eval_flags.Video = "failures",
    show_predictions: play_flags.ShowPredictions = False,
    report: eval_flags.Report = True,
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
    show_help: play_flags.Help = False,
) -> None:
    """Play whole suites on many simulators around one model; results survive whatever happens."""
    with border(verbose=verbose, as_json=as_json):
        if show_help:
            show_whole_help(context)
            return
        showing = Showing(
            quiet=quiet,
            dashboard_port=0 if dashboard and dashboard_port is None else dashboard_port,
            metrics=None if metrics is None else eval_words.metrics_address(metrics),
        )
        if resume is not None:
            run_dir, config = resumed(context, os.environ, named=resume, output=output)
            asked = Asked(run_dir=run_dir, config=config)
        else:
            programs = programs_asked(context, os.environ)
            asked = Asked(
                run_dir=None,
                config=EvalConfig(
                    suites=eval_words.names("--suite", suite),
                    tasks=eval_words.tasks(task),
                    episodes=episodes,
                    first_init_state=first_init_state,
                    seeds=eval_words.seeds(seed) or (DEFAULT_SEED,),
                    max_steps=max_steps,
                    video=video,
                    show_predictions=show_predictions,
                    envs=eval_words.envs(envs),
                    pin=pin,
                    max_batch=max_batch,
                    max_wait_ms=eval_words.max_wait_ms(max_wait_ms),
                    ray=eval_words.ray(ray),
                    ray_nodes=ray_nodes,
                    **asdict(programs),
                ),
            )
        summary = _play(asked, showing)
        _show(summary, report=report, as_json=as_json)


class Asked(Struct, frozen=True, kw_only=True):
    """An evaluation to begin, or to go on with."""

    run_dir: Path | None
    """The folder of the one that goes on; None: it is a new one."""
    config: EvalConfig


def _play(asked: Asked, showing: Showing) -> EvalSummary:
    # Late: it reaches the Docker SDK, which `--help` should not wait for.
    from rpent_box.evaluate.scale.evaluation import resume_evaluation, run_evaluation

    def play(watcher: EvalWatcher) -> EvalSummary:
        if asked.run_dir is None:
            return run_evaluation(asked.config, watcher)
        return resume_evaluation(asked.run_dir, asked.config, watcher)

    return watched(showing, play)


def _show(summary: EvalSummary, *, report: bool, as_json: bool) -> None:
    if as_json:
        print_json(summary)
    else:
        sys.stdout.write(render_evaluation(read_ended(summary)))
    # Last: it takes a moment, and the results should not wait for it.
    path = _write_report(summary) if report else None
    if path is not None and not as_json:
        sys.stdout.write(labelled("report", path))
    if summary.status != "complete":
        raise typer.Exit(NOT_COMPLETED)


def _write_report(summary: EvalSummary) -> str | None:
    """Return the path of the report; None where it could not be written, which is said."""
    try:
        return str(write_report([summary.run_dir]).report)
    except Exception as error:  # noqa: BLE001 - a defect of the page takes no results with it
        why = error.message if isinstance(error, RpentBoxError) else f"{error!r}"
        # The results are there, and a report can be made of them at any time.
        sys.stderr.write(f"no report: {why}\nlater: {report_command(summary.run_dir)}\n")
        return None
