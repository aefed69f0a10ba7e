# SPDX-License-Identifier: Apache-2.0
"""Workers as programs: what to start for a backend, and when it is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rpent_box.contracts.messages import Health, Healthz
from rpent_box.errors import (
    BadOption,
    DeadlineExceeded,
    PeerGone,
    ProtocolMismatch,
    StartTimeout,
    WorkerFailed,
)
from rpent_box.launch.box import Box
from rpent_box.launch.gpus import ALL_GPUS
from rpent_box.launch.mounts import checkpoint_mounts
from rpent_box.launch.program import Launcher, Mount, Program, Running, require_alive
from rpent_box.transport.channel import ClientChannel
from rpent_box.transport.paths import CONTAINER_ROOM, SHM, BoxPaths
from rpent_box.worker.backend import BackendSpec

MODULE = "rpent_box.worker.serve"
ANSWER_S = 2.0
"""How long one question may take while a worker starts; it answers at all times."""
POLL_S = 0.1
BORROWED_S = 10.0
"""How long a worker that is said to run may keep silent."""


def worker_program(
    spec: BackendSpec,
    launcher: Launcher,
    box: Box,
    *,
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
) -> Program:
    """Return the program that serves `spec` in `box`.

    `options` are the words of the backend's own options. `endpoint` is a tcp address to listen at
    instead of the box's socket. Raises `BadOption` when the checkpoint does not exist.
    """
    seen = seen_paths(launcher, box)
    weights = None if checkpoint is None else _existing(checkpoint)
    words = [spec.name, "--endpoint", endpoint or seen.worker_endpoint, "--platform", platform]
    words += ["--box", box.id, "--view", launcher.view, "--lease", str(seen.lease)]
    words += ["--threads", str(threads)]
    if weights is not None:
        words += ["--checkpoint", str(weights)]
    return Program(
        role="worker",
        name=spec.name,
        module=MODULE,
        arguments=(*words, *options),
        image=image,
        python=python,
        root=root,
        mounts=(*_mounts(box.paths), *(checkpoint_mounts(weights) if weights else ())),
        gpus=_gpus(spec, cuda_device),
        network=spec.needs_network or endpoint is not None,
        threads=threads,
        log=log,
    )


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
    with the worker's traceback, `PeerGone` when no borrowed worker is there, or `StartTimeout`,
    which names the phase.
    """
    phase = "starting"
    say(phase)
    silent_until = time.monotonic() + BORROWED_S
    while True:
        health = _ask(endpoint, min(ANSWER_S, max(0.01, deadline - time.monotonic())))
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


def _ask(endpoint: str, timeout_s: float) -> Health | None:
    """Return the worker's health; None while nobody answers."""
    try:
        with ClientChannel.connect(
            endpoint, client="launcher", box=None, timeout_s=timeout_s
        ) as channel:
            reply, _ = channel.request(Healthz(), timeout_s=timeout_s)
    except (PeerGone, DeadlineExceeded):
        return None
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


def _existing(checkpoint: str) -> Path:
    path = Path(checkpoint).expanduser().absolute()
    if not path.exists():
        raise BadOption(
            f"there is no checkpoint at {path}",
            hint="Give an existing file or folder: --checkpoint PATH",
        )
    return path


def _gpus(spec: BackendSpec, cuda_device: str | None) -> tuple[str, ...]:
    if cuda_device is not None:
        return tuple(one.strip() for one in cuda_device.split(","))
    return ALL_GPUS if spec.needs_gpu else ()


def _mounts(paths: BoxPaths) -> tuple[Mount, ...]:
    return (
        Mount(str(paths.grants), str(SHM)),
        Mount(str(paths.sockets), str(CONTAINER_ROOM / "sockets"), read_only=False),
        Mount(str(paths.lease), str(CONTAINER_ROOM / "lease")),
        Mount(str(paths.results), str(CONTAINER_ROOM / "results"), read_only=False),
    )
