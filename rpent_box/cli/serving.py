# SPDX-License-Identifier: Apache-2.0
"""What `rpent-box serve` does: start one worker, say where it is, look after it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from rpent_box.cli.products import make_products
from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import UsageError
from rpent_box.evaluate.config import LauncherName
from rpent_box.launch.checkpoints import checkpoint_of_run, require_usable
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.environments import require_environment
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Target
from rpent_box.launch.standalone import StandaloneWorker, standalone_worker
from rpent_box.launch.worker import check_files, require_gpu
from rpent_box.options import parse_options
from rpent_box.sim.results import utc_now
from rpent_box.transport.paths import tcp_address
from rpent_box.worker.backend import BackendSpec, Device
from rpent_box.worker.needs import Needs, needs_of, require_platform

WATCH_EVERY_S = 0.5
"""How late a worker's end is noticed at most."""


class ServeRequest(Struct, frozen=True, kw_only=True):
    """One worker to serve."""

    spec: BackendSpec
    platform: str
    checkpoint: str | None
    listen: str | None
    """A tcp address; None: the box's own socket."""
    device: Device | None
    cuda_device: str | None
    python: str | None
    root: str | None
    threads: int | None
    max_batch: int | None
    """None: as many as the model takes without a change to any bit."""
    max_wait_ms: float | None
    """None: as measured times tell."""
    options: tuple[str, ...]
    launcher: LauncherName
    build: bool
    start_timeout_s: float
    output_dir: str
    runtime_dir: str | None
    cache_dir: str | None


@contextmanager
def start_worker(
    request: ServeRequest, *, say: Callable[[str], None], environ: Mapping[str, str]
) -> Iterator[StandaloneWorker]:
    """Yield the worker once it is ready, and end it on leaving.

    Raises `UsageError` before anything is started, and what `standalone_worker` raises.
    """
    needs = check_request(request)
    launcher, why = choose_launcher("process" if request.python else request.launcher)
    say(f"launcher: {launcher.name} ({why})")
    require_gpu(request.spec, needs, launcher)
    require_usable(request.spec, request.options, request.checkpoint, request.platform, suite=None)
    target = Target("backend", request.spec.name, "cpu" if needs.cpu_variant else "")
    if request.build and request.python is None:
        make_products([target], launcher.name, base=None, say=say, environ=environ)
    python = request.python or ""
    if launcher.name == "process" and request.python is None:
        python = str(require_environment(*target))
    # Last, because gigabytes are hashed.
    checkpoint_files = inspect_request(request, say=say)
    with standalone_worker(
        request.spec,
        launcher,
        needs=needs,
        checkpoint=request.checkpoint,
        platform=request.platform,
        options=request.options,
        python=python,
        root=request.root,
        cuda_device=request.cuda_device,
        threads=request.threads or _cores(),
        log=str(_log_folder(request) / "worker.log"),
        image=image_name(*target),
        start_timeout_s=request.start_timeout_s,
        say=lambda phase: say(f"worker: {phase}"),
        listen=request.listen,
        checkpoint_files=checkpoint_files,
        max_batch=request.max_batch,
        max_wait_ms=request.max_wait_ms,
        runtime_dir=request.runtime_dir,
    ) as worker:
        yield worker


def announce(
    worker: StandaloneWorker, request: ServeRequest, *, as_json: bool, quiet: bool
) -> None:
    """Print the endpoint on stdout: alone on its line, or as one object."""
    if as_json:
        facts = {
            "endpoint": worker.endpoint,
            "backend": request.spec.name,
            "platform": request.platform,
            "log": worker.running.program.log,
        }
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    else:
        sys.stdout.write(worker.endpoint + "\n")
    sys.stdout.flush()
    if not quiet:
        sys.stderr.write(
            f"{worker.running.describe()} is ready; its log: {worker.running.program.log}\n"
            f"use it: rpent-box run --platform {request.platform} --endpoint {worker.endpoint}\n"
            "stop it: Ctrl-C\n"
        )


def serve_until_told(worker: StandaloneWorker) -> None:
    """Return at Ctrl-C or SIGTERM. Raises `ProgramDied` when the worker ends by itself."""
    try:
        while True:
            worker.watch()
            time.sleep(WATCH_EVERY_S)
    except (KeyboardInterrupt, SystemExit):
        # The usual end of a server, and no failure.
        sys.stderr.write("stopping: what is queued will be answered\n")


def check_request(request: ServeRequest) -> Needs:
    """Return what the worker needs.

    Raises `UsageError` for what can be known to be wrong before anything is started.
    """
    spec = request.spec
    require_platform(spec, request.platform)
    needs = needs_of(
        spec,
        parse_options(spec.options, request.options, program=f"rpent-box serve {spec.name}"),
        checkpoint=request.checkpoint,
        device=request.device,
        cuda_device=request.cuda_device,
    )
    check_files(spec, request.checkpoint, request.options)
    if request.listen is not None:
        tcp_address(request.listen)
    if request.launcher == "docker" and (request.python or request.root):
        raise UsageError(
            "--python and --root cannot be used with containers: an image brings its own",
            hint="Leave them out, or choose --launcher process.",
        )
    return needs


def inspect_request(
    request: ServeRequest, *, say: Callable[[str], None]
) -> CheckpointManifest | None:
    """Return what the worker tells its clients of the checkpoint. Raises `BadCheckpoint`.

    Which suite will be played is not known here: a run compares it when it connects.
    """
    return checkpoint_of_run(
        request.spec,
        request.options,
        request.checkpoint,
        request.platform,
        None,
        say=lambda text: say(f"checkpoint: {text}"),
        cache=None if request.cache_dir is None else Path(request.cache_dir),
    )


def _log_folder(request: ServeRequest) -> Path:
    # With the process id: two that start within one second must not write into one log.
    name = f"{utc_now():%Y%m%dT%H%M%SZ}-serve-{request.spec.name}-{os.getpid()}"
    return Path(request.output_dir).expanduser().absolute() / name


def _cores() -> int:
    """Return how many cores a worker may use that shares its machine with nobody."""
    return len(os.sched_getaffinity(0))
