# SPDX-License-Identifier: Apache-2.0
"""Makes tiny programs for boxes, and looks for what a box has left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from rpent_box.launch.marked import is_alive, marked_processes
from rpent_box.launch.program import Mount, Program
from rpent_box.transport.paths import GRANTS_ROOT, SHM, BoxPaths

SUPPORT = Path(__file__).parent
CONTAINER_SUPPORT = "/support"
IMAGE = "rpent-box/mini-wam:0.1.0"


def tiny_program(
    *arguments: str,
    log: Path,
    role: Literal["worker", "simulator"] = "worker",
    name: str = "tiny",
    **more: object,
) -> Program:
    """Return a program that runs `tiny_program` as a process or, where asked, in `IMAGE`."""
    environment = {"PYTHONPATH": str(SUPPORT), **_dict(more.pop("environment", {}))}
    return Program(
        role=role,
        name=name,
        module="tiny_program",
        arguments=arguments,
        image=IMAGE,
        python=sys.executable,
        root=None,
        environment=environment,
        log=str(log),
        **more,  # type: ignore[arg-type]
    )


def in_container(paths: BoxPaths, *, grants_read_only: bool) -> dict[str, object]:
    """Return the mounts and variables for a `tiny_program` in a container."""
    return {
        "environment": {"PYTHONPATH": CONTAINER_SUPPORT},
        "mounts": (
            Mount(str(SUPPORT), CONTAINER_SUPPORT),
            Mount(str(paths.grants), "/dev/shm", grants_read_only),
            Mount(str(paths.sockets), "/run/rpent-box/sockets", read_only=False),
            Mount(str(paths.lease), "/run/rpent-box/lease"),
        ),
    }


def wait_for(condition: Callable[[], object], *, within_s: float, what: str) -> float:
    """Wait until `condition()` holds; return the seconds it took. Fails after `within_s`."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < within_s, f"{what}: not within {within_s} s"
        time.sleep(0.02)
    return time.monotonic() - started


def leftovers(paths: BoxPaths, *, docker: bool = False) -> list[str]:
    """Return everything that is still there of a box: processes, files, segments, containers."""
    found = [f"process {pid}" for pid in marked_processes(paths.box)]
    found += [str(path) for path in (paths.room, paths.grants, paths.results) if path.exists()]
    found += [str(path) for path in SHM.glob(f"rpent-box.{paths.box}.*")]
    found += [str(path) for path in GRANTS_ROOT.glob(f"{paths.box}*/*")]
    found += [f"reaper {pid}" for pid in reapers(paths.box)]
    if docker:
        found += [f"container {name}" for name in containers(paths.box)]
    return found


def reapers(box_id: str) -> list[int]:
    """Return the reaper processes of a box."""
    words = [b"rpent_box.launch.reaper", box_id.encode()]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(word in command for word in words) and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def wait_for_reaper(box_id: str) -> int:
    """Wait until a box's reaper waits for its owner; return its process id."""
    wait_for(lambda: any(map(_is_waiting, reapers(box_id))), within_s=30, what="a reaper")
    (pid,) = reapers(box_id)
    return pid


def _is_waiting(pid: int) -> bool:
    # It leaves its working directory once everything else is set up.
    try:
        return os.readlink(f"/proc/{pid}/cwd") == "/"
    except OSError:
        return False


def containers(box_id: str) -> list[str]:
    """Return the names of a box's containers, running or not."""
    return docker_words(
        "ps", "--all", "--filter", f"label=rpent-box.box={box_id}", "--format", "{{.Names}}"
    )


def docker_words(*words: str) -> list[str]:
    """Ask the docker command and return the lines of its answer."""
    answer = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def why_no_docker(image: str = IMAGE) -> str:
    """Return why containers cannot be tested here; empty when they can."""
    from rpent_box.errors import EngineMissing
    from rpent_box.launch.engine_socket import check_engine, engine_socket

    try:
        check_engine(engine_socket())
    except EngineMissing as error:
        return error.message
    if not docker_words("images", "--quiet", image):
        return f"the image {image} is not built: rpent-box build mini-wam"
    return ""


def _dict(value: object) -> dict[str, str]:
    assert isinstance(value, dict)
    return value
