# SPDX-License-Identifier: Apache-2.0
"""Which launcher: containers where an engine answers, plain processes elsewhere."""

from __future__ import annotations

from typing import Literal

from rpent_box.errors import LaunchError
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.program import Launcher


def choose_launcher(preference: Literal["auto", "docker", "process"]) -> tuple[Launcher, str]:
    """Return a launcher, and why that one, e.g. `Docker 27.3.1 answers at /var/run/docker.sock`.

    When containers are asked for, raises `EngineMissing` if no engine answers, `LaunchError` if it
    is too old.
    """
    if preference == "process":
        return ProcessLauncher(), "asked for"
    try:
        launcher, why = _docker()
    except LaunchError as error:
        if preference == "docker":
            raise
        return ProcessLauncher(), error.message
    return launcher, "asked for" if preference == "docker" else why


def _docker() -> tuple[Launcher, str]:
    check_engine(engine_socket())
    # Late: the Docker SDK takes longer to import than to find out that there is no engine.
    from rpent_box.launch.docker import DockerLauncher
    from rpent_box.launch.engine import Engine

    engine = Engine.connect()
    return DockerLauncher(engine), f"Docker {engine.version} answers at {engine.socket}"
