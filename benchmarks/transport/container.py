# SPDX-License-Identifier: Apache-2.0
"""The shared-memory line with its server in a container, closed as a worker's container is."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from contextlib import ExitStack

from benchmarks.transport.entrants import ROOT, Entrant, Pair, first_line, start, stop
from rpent_box.transport.paths import BoxPaths

CHECK = "import sys, msgspec, numpy, posix_ipc, zmq"


class Skipped(Exception):
    """Why no container was measured."""


def start_pair_in_container(entrant: Entrant, box: BoxPaths, image: str | None) -> Pair:
    """Start the server in a container without network or capabilities, the client as a process."""
    docker = _docker()
    chosen = _choose(docker, image)
    name = f"rpent-box-bench-{secrets.token_hex(4)}"
    with ExitStack() as undo:
        where = f"container:{box.box}"
        command = [docker, "run", "--rm", "--name", name, *_closed(box), chosen]
        command += ["-m", "benchmarks.transport.server", entrant.line, where]
        server = start(command)
        undo.callback(stop, server)
        undo.callback(_quietly, [docker, "rm", "--force", name])
        first_line(server)
        return Pair(entrant, box.worker_endpoint, undo.pop_all())


def _closed(box: BoxPaths) -> list[str]:
    options = {
        "network": "none",
        "user": f"{os.getuid()}:{os.getgid()}",
        "cap-drop": "ALL",
        "security-opt": "no-new-privileges",
        "tmpfs": "/tmp",
        "env": "PYTHONPATH=/bench",
        "entrypoint": "python3",
    }
    mounts = [
        f"{ROOT}/benchmarks:/bench/benchmarks:ro",
        f"{ROOT}/rpent_box:/bench/rpent_box:ro",
        f"{box.grants}:/dev/shm:ro",
        f"{box.sockets}:/run/rpent-box/sockets",
        f"{box.lease}:/run/rpent-box/lease:ro",
        f"{box.results}:/run/rpent-box/results",
    ]
    flags = [f"--{name}={value}" for name, value in options.items()]
    return ["--init", "--read-only", *flags, *(f"--volume={mount}" for mount in mounts)]


def _docker() -> str:
    docker = shutil.which("docker")
    if docker is None:
        raise Skipped("no docker command")
    if _quietly([docker, "version"]).returncode:
        raise Skipped("no Docker engine answers")
    return docker


def _choose(docker: str, image: str | None) -> str:
    """Return `image`, else the first local image of ours that has what the server imports."""
    candidates = [image] if image else _local_images(docker)
    for candidate in candidates:
        run = [docker, "run", "--rm", "--network=none", "--entrypoint=python3", candidate]
        if _quietly([*run, "-c", CHECK]).returncode == 0:
            print(f"container image: {candidate}", file=sys.stderr)
            return candidate
    if image:
        raise Skipped(f"{image} has no python3 with msgspec, numpy, posix_ipc and zmq")
    raise Skipped("no rpent-box image is built: make image-mini-wam, or give --image")


def _local_images(docker: str) -> list[str]:
    listing = _quietly([docker, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"])
    return [name for name in listing.stdout.split() if "rpent-box" in name]


def _quietly(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
