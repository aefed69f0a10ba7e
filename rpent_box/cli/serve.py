# SPDX-License-Identifier: Apache-2.0
"""`rpent-box serve`: a worker that stays loaded, for many runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from rpent_box.cli import eval_words, flags
from rpent_box.cli.backend_help import render_backend_options
from rpent_box.cli.border import border
from rpent_box.cli.progress import speaker
from rpent_box.cli.serving import ServeRequest, announce, serve_until_told, start_worker
from rpent_box.cli.surroundings import cache_dir, place_of_worker, runtime_dir
from rpent_box.cli.words import backend_arguments, options_of
from rpent_box.errors import UsageError
from rpent_box.live.metrics_server import serve_metrics
from rpent_box.live.worker_figures import WorkerFigures
from rpent_box.plugins import backend_names, find_backend
from rpent_box.worker.backend import BackendSpec


def serve(
    context: typer.Context,
    backend: Annotated[
        str | None,
        typer.Argument(help="The model to serve.", metavar="BACKEND", show_default=False),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            help="The platform whose observations it will get.",
            metavar="NAME",
            show_default="libero, or the first that the backend knows",
            rich_help_panel=flags.WORKER,
        ),
    ] = None,
    checkpoint: flags.Checkpoint = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            "--endpoint",
            help="Listen at a tcp address instead, e.g. tcp://127.0.0.1:0 (port 0: any). Whoever "
            "reaches it may use it.",
            metavar="URL",
            show_default="a Unix socket in a folder of yours",
            rich_help_panel=flags.WORKER,
        ),
    ] = None,
    predict_future: flags.PredictFuture = False,
    device: flags.Device = None,
    cuda_device: flags.CudaDevice = None,
    python: flags.Python = None,
    root: flags.Root = None,
    threads: flags.Threads = None,
    max_batch: flags.MaxBatch = None,
    max_wait_ms: flags.MaxWaitMs = eval_words.AUTO,
    backend_option: flags.BackendOption = None,
    launcher: flags.Launcher = "auto",
    build: flags.Build = False,
    start_timeout: flags.StartTimeout = 600.0,
    metrics: flags.Metrics = None,
    output: flags.Output = "runs",
    as_json: flags.AsJson = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = False,
    show_help: flags.Help = False,
) -> None:
    """Load a model and keep it; print its endpoint, which any number of runs may use.

    Ends with Ctrl-C or SIGTERM, after what it has queued.
    """
    with border(verbose=verbose, as_json=as_json):
        if show_help:
            typer.echo(context.get_help())
            if backend is not None:
                typer.echo(render_backend_options(find_backend(backend)))
            return
        spec = _find(backend)
        place = place_of_worker(
            spec, python=python, root=root, launcher=launcher, environ=os.environ
        )
        request = ServeRequest(
            spec=spec,
            platform=_platform(spec, platform),
            checkpoint=checkpoint,
            listen=listen,
            device=device,
            cuda_device=cuda_device,
            python=place.python,
            root=place.root,
            threads=threads,
            max_batch=max_batch,
            max_wait_ms=eval_words.max_wait_ms(max_wait_ms),
            options=backend_arguments(
                spec,
                words=context.args,
                pairs=backend_option or [],
                predict_future=predict_future,
                known=options_of(context),
                environ=os.environ,
            ),
            launcher=launcher,
            build=build,
            start_timeout_s=start_timeout,
            output_dir=output,
            runtime_dir=runtime_dir(os.environ),
            cache_dir=cache_dir(os.environ),
        )
        with (
            _measured(metrics) as figures,
            start_worker(request, say=speaker(quiet=quiet), environ=os.environ) as worker,
        ):
            figures.endpoint = worker.endpoint
            announce(worker, request, as_json=as_json, quiet=quiet)
            serve_until_told(worker)


@contextmanager
def _measured(address: str | None) -> Iterator[WorkerFigures]:
    """Yield whose figures are served at `address`, if any; its worker need not be there yet."""
    figures = WorkerFigures()
    if address is None:
        yield figures
        return
    # Before a model is loaded: an address that is taken should not cost minutes.
    host, port = eval_words.metrics_address(address)
    with serve_metrics(figures, host=host, port=port) as url:
        sys.stderr.write(f"metrics: {url}\n")
        yield figures


def _find(backend: str | None) -> BackendSpec:
    if backend is None:
        raise UsageError(
            "which backend shall be served?",
            hint=f"Name it: {', '.join(backend_names()) or 'none is installed'}",
        )
    return find_backend(backend)


def _platform(spec: BackendSpec, asked: str | None) -> str:
    """Return the platform to load the adapter of. The worker refuses one that it has none for."""
    return flags.default_platform_of(spec) if asked is None else asked
