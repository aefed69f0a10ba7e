# SPDX-License-Identifier: Apache-2.0
"""Workers as programs: what to start for a backend, and when it is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.messages import Health, Healthz
from rpent_box.errors import (
    DeadlineExceeded,
    LaunchError,
    PeerGone,
    ProtocolMismatch,
    StartTimeout,
    WorkerFailed,
)
from rpent_box.launch.box import Box
from rpent_box.launch.checkpoints import look_at
from rpent_box.launch.given_paths import existing_path, with_whole_paths
from rpent_box.launch.gpus import ALL_GPUS, gpus_of
from rpent_box.launch.mounts import mounts_of
from rpent_box.launch.program import Launcher, Mount, Program, Running, require_alive
from rpent_box.options import parse_options
from rpent_box.transport.channel import ClientChannel
from rpent_box.transport.paths import CONTAINER_ROOM, SHM, BoxPaths
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.needs import Needs

MODULE = "rpent_box.worker.serve"
ANSWER_S = 2.0
"""How long one question may take while a worker starts; it answers at all times."""
POLL_S = 0.1
BORROWED_S = 10.0
"""How long a worker that is said to run may keep silent."""
PATIENCE_S = 20.0
"""How long a worker may seem to speak otherwise: on a machine out of breath ZeroMQ's own handshake
runs out of time, which looks like a stranger at that address."""


def worker_program(
    spec: BackendSpec,
    launcher: Launcher,
    box: Box,
    *,
    needs: Needs,
    checkpoint: str | None,
    platform: str,
    options: Sequence[str],
    python: str,
    root: str | None,
    cuda_device: str | None,
    threads: int,
    log: str,
    image: str,
    endpoint: str | None = None,
    checkpoint_files: CheckpointManifest | None = None,
    max_batch: int | None = None,
    max_wait_ms: float | None = None,
) -> Program:
    """Return the program that serves `spec` in `box`.

    `options` are the words of the backend's own options, `needs` is what follows from them.
    `endpoint` is a tcp address to listen at instead of the box's socket; `checkpoint_files` is what
    the worker tells its clients; `max_batch` and `max_wait_ms` are how it batches, None: its own
    choice. Raises `BadOption` when the checkpoint, or a path in the options, does not exist,
    `BadCheckpoint` as `spec.inspect`.
    """
    seen = seen_paths(launcher, box)
    weights = _weights(spec, checkpoint)
    options, named = with_whole_paths(spec.options, options, program=_help_of(spec))
    given = weights or (None if checkpoint is None else Path(checkpoint))
    shown: tuple[Mount, ...] = ()
    if launcher.view == "container":
        read = _files_read(spec, given, platform, options)
        shown = mounts_of([*([weights] if weights else []), *named, *read])
    words = [spec.name, "--endpoint", endpoint or seen.worker_endpoint, "--platform", platform]
    words += ["--box", box.id, "--view", launcher.view, "--lease", str(seen.lease)]
    words += ["--threads", str(threads), "--device", needs.device]
    if checkpoint is not None:
        words += ["--checkpoint", str(weights or checkpoint)]
    if checkpoint_files is not None:
        words += ["--checkpoint-files", msgspec.json.encode(checkpoint_files).decode()]
    if max_batch is not None:
        words += ["--max-batch", str(max_batch)]
    if max_wait_ms is not None:
        words += ["--max-wait-ms", f"{max_wait_ms:g}"]
    return Program(
        role="worker",
        name=spec.name,
        module=MODULE,
        arguments=(*words, *options),
        image=image,
        variant="cpu" if needs.cpu_variant else "",
        python=python,
        root=root,
        mounts=(*_mounts(box.paths), *shown),
        gpus=gpus_of(cuda_device) or (ALL_GPUS if needs.device == "cuda" else ()),
        network=needs.network or endpoint is not None,
        threads=threads,
        log=log,
    )


def _files_read(
    spec: BackendSpec, root: Path | None, platform: str, options: Sequence[str]
) -> list[Path]:
    """Return what the model reads besides: statistics that lie beside a single file of weights.

    `root` is the checkpoint, or its name alone where a service has the weights.
    """
    if root is None or spec.inspect is None:
        return []
    given = parse_options(spec.options, options, program=_help_of(spec))
    return [Path(file.path) for file in look_at(spec, given, root, platform).files]


def check_files(spec: BackendSpec, checkpoint: str | None, options: Sequence[str]) -> None:
    """Raise `BadOption` when the checkpoint, or a path in the options, does not exist."""
    _weights(spec, checkpoint)
    with_whole_paths(spec.options, options, program=_help_of(spec))


def _help_of(spec: BackendSpec) -> str:
    return f"rpent-box serve {spec.name}"


def require_gpu(spec: BackendSpec, needs: Needs, launcher: Launcher) -> None:
    """Raise `LaunchError` when it is known that the model would find no GPU."""
    if needs.device != "cuda" or launcher.sees_gpus():
        return
    raise LaunchError(
        f"{spec.name} computes on an NVIDIA GPU, and none is here: no driver answers "
        "(nvidia-smi, /dev/nvidia*)",
        hint=_without_gpu(spec),
    )


def _without_gpu(spec: BackendSpec) -> str:
    if "cpu" in spec.variants:
        return "It can compute on the CPU, slowly: --device cpu"
    elsewhere = (
        f"Serve it where a GPU is: rpent-box serve {spec.name} --listen URL; then --endpoint"
    )
    if spec.borrows:
        return f"Borrow a running service: --{spec.borrows.replace('_', '-')} URL. {elsewhere}"
    return elsewhere


def _weights(spec: BackendSpec, checkpoint: str | None) -> Path | None:
    """Return the checkpoint's path; None without one, and where it is only a name."""
    if checkpoint is None or spec.checkpoint_is == "name":
        return None
    return existing_path(checkpoint, "checkpoint", "--checkpoint")


def seen_paths(launcher: Launcher, box: Box) -> BoxPaths:
    """Return `box`'s paths as a program of `launcher` sees them."""
    return box.paths if launcher.view == "host" else BoxPaths.in_container(box.id)


def wait_ready(
    endpoint: str,
    running: Running | None,
    deadline: float,
    say: Callable[[str], None],
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> Health:
    """Wait until the worker at `endpoint` is ready; `deadline` is on `time.monotonic()`.

    `say` is told each new phase. `running` is None for a borrowed worker. `meanwhile` is called
    between two looks, to look after what else is starting. Raises `ProgramDied`, `WorkerFailed`
    with the worker's traceback, `PeerGone` when no borrowed worker is there, `ProtocolMismatch`
    when something else is, or `StartTimeout`, which names the phase.
    """
    phase = "starting"
    say(phase)
    silent_until = time.monotonic() + BORROWED_S
    question = _Question(endpoint, deadline)
    while True:
        health = question.ask()
        if health is not None and _phase(health) != phase:
            phase = _phase(health)
            say(phase)
        if health is not None and health.state == "ready":
            return health
        if health is not None and health.state == "failed":
            raise _failed(health, running)
        if running is not None:
            require_alive(running)
        elif health is not None:
            silent_until = time.monotonic() + BORROWED_S
        elif time.monotonic() >= silent_until:
            raise _nobody_there(endpoint)
        if time.monotonic() >= deadline:
            raise _too_late(endpoint, phase, running)
        meanwhile()
        time.sleep(POLL_S)


class _Question:
    """Asks a worker how it is, over and over."""

    def __init__(self, endpoint: str, deadline: float) -> None:
        self._endpoint = endpoint
        self._deadline = deadline
        self._strange_since: float | None = None

    def ask(self) -> Health | None:
        """Return the worker's health; None while nobody answers.

        Raises `ProtocolMismatch` when what answers has spoken otherwise for `PATIENCE_S`.
        """
        now = time.monotonic()
        try:
            health = _ask(self._endpoint, min(ANSWER_S, max(0.01, self._deadline - now)))
        except (PeerGone, DeadlineExceeded):
            health = None
        except ProtocolMismatch:
            if self._strange_since is None:
                self._strange_since = now
            if time.monotonic() >= min(self._strange_since + PATIENCE_S, self._deadline):
                raise
            return None
        self._strange_since = None
        return health


def _ask(endpoint: str, timeout_s: float) -> Health:
    with ClientChannel.connect(
        endpoint, client="launcher", box=None, timeout_s=timeout_s
    ) as channel:
        reply, _ = channel.request(Healthz(), timeout_s=timeout_s)
    if not isinstance(reply, Health):
        raise ProtocolMismatch(f"{endpoint} answered healthz with {type(reply).__name__}")
    return reply


def _phase(health: Health) -> str:
    return f"{health.state}: {health.reason}" if health.reason else health.state


def _failed(health: Health, running: Running | None) -> WorkerFailed:
    log = f"Its whole log: {running.program.log}" if running is not None else ""
    return WorkerFailed(
        f"{health.backend} could not be loaded: {health.reason}", hint=log, detail=health.detail
    )


def _nobody_there(endpoint: str) -> PeerGone:
    return PeerGone(
        f"no worker answers at {endpoint}",
        hint="Start one, which prints its endpoint: rpent-box serve BACKEND",
    )


def _too_late(endpoint: str, phase: str, running: Running | None) -> StartTimeout:
    who = f"the worker at {endpoint}" if running is None else running.describe()
    return StartTimeout(
        f"{who} was not ready in time; it stood at: {phase}",
        hint="Allow more: --start-timeout. A first start may have to read many gigabytes.",
        detail="" if running is None else running.last_log_lines(),
    )


def _mounts(paths: BoxPaths) -> tuple[Mount, ...]:
    return (
        Mount(str(paths.grants), str(SHM)),
        Mount(str(paths.sockets), str(CONTAINER_ROOM / "sockets"), read_only=False),
        Mount(str(paths.lease), str(CONTAINER_ROOM / "lease")),
        Mount(str(paths.results), str(CONTAINER_ROOM / "results"), read_only=False),
    )
