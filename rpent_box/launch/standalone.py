# SPDX-License-Identifier: Apache-2.0
"""A worker in a box of its own that stays loaded: many runs may borrow it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.messages import Health
from rpent_box.errors import BadOption, SocketBusy
from rpent_box.launch.box import Box
from rpent_box.launch.program import Launcher, Running, require_alive
from rpent_box.launch.worker import wait_ready, worker_program
from rpent_box.transport.paths import is_ipc, tcp_address
from rpent_box.worker.backend import BackendSpec
from rpent_box.worker.needs import Needs

_EVERY_ADDRESS = ("0.0.0.0", "::")
POLL_S = 0.1


class StandaloneWorker(Struct, frozen=True, kw_only=True):
    """A worker that is ready."""

    endpoint: str
    """For `rpent-box run --endpoint`."""
    running: Running
    health: Health
    """What it said when it was ready."""

    def watch(self) -> None:
        """Raise `ProgramDied` if it has ended."""
        require_alive(self.running)


@contextmanager
def standalone_worker(
    spec: BackendSpec,
    launcher: Launcher,
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
    start_timeout_s: float,
    say: Callable[[str], None],
    listen: str | None = None,
    checkpoint_files: CheckpointManifest | None = None,
    max_batch: int | None = None,
    max_wait_ms: float | None = None,
    runtime_dir: Path | str | None = None,
) -> Iterator[StandaloneWorker]:
    """Start a worker in a new box and yield it once it is ready; end both on leaving.

    `listen` is a tcp address to listen at instead of the box's own socket; with port 0 the worker
    takes a free one. `checkpoint_files` is told to its clients; `max_batch` and `max_wait_ms` are
    how it batches. Raises `SocketBusy` when the address cannot be had, and what `Launcher.start`
    and `wait_ready` raise.
    """
    deadline = time.monotonic() + start_timeout_s
    if listen is not None:
        _require_free(listen)
    with Box.create(runtime_dir) as box:
        program = worker_program(
            spec,
            launcher,
            box,
            needs=needs,
            checkpoint=checkpoint,
            platform=platform,
            options=options,
            python=python,
            root=root,
            cuda_device=cuda_device,
            threads=threads,
            log=log,
            image=image,
            endpoint=listen,
            checkpoint_files=checkpoint_files,
            max_batch=max_batch,
            max_wait_ms=max_wait_ms,
        )
        running = launcher.start(program, box)
        if listen is None:
            endpoint = box.worker_place.endpoint
        else:
            endpoint = _reachable(_printed_endpoint(listen, running, deadline))
        health = wait_ready(endpoint, running, deadline, say)
        yield StandaloneWorker(endpoint=endpoint, running=running, health=health)


def _require_free(listen: str) -> None:
    # Before anything is started: whoever answers there could pass for our worker.
    if is_ipc(listen):
        raise BadOption(
            f"a worker listens at a Unix socket of its own choice, not at {listen}",
            hint="Leave --listen out, or give tcp://host:port.",
        )
    host, port = tcp_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SocketBusy(
                f"a worker cannot listen at {listen}: {error.strerror or error}",
                hint="Give an address of this machine, and another port, or port 0 for any.",
            ) from error


def _printed_endpoint(listen: str, running: Running, deadline: float) -> str:
    """Return the address that the worker printed: `listen` with the port that it was given."""
    if is_ipc(listen) or tcp_address(listen)[1] != 0:
        return listen
    while time.monotonic() < deadline:
        for line in running.last_log_lines(200).splitlines():
            if line.startswith("tcp://"):
                return line.strip()
        require_alive(running)
        time.sleep(POLL_S)
    return listen


def _reachable(endpoint: str) -> str:
    """Return `endpoint` with every-address replaced by this machine's own."""
    host, port = tcp_address(endpoint)
    return f"tcp://127.0.0.1:{port}" if host in _EVERY_ADDRESS else endpoint
