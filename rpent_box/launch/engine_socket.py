# SPDX-License-Identifier: Apache-2.0
"""Where the Docker engine listens, and whether it can be spoken to; asked without its SDK."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from rpent_box.errors import EngineMissing

DEFAULT_SOCKET = Path("/var/run/docker.sock")
TIMEOUT_S = 5.0
WITHOUT = "Or run without containers: --launcher process"


def engine_socket(environ: Mapping[str, str] | None = None) -> Path:
    """Return the engine's socket, found as the docker command finds it: DOCKER_HOST first.

    Raises `EngineMissing` for an engine on another machine.
    """
    environ = os.environ if environ is None else environ
    host = environ.get("DOCKER_HOST", "")
    if host.startswith("unix://"):
        return Path(host.removeprefix("unix://"))
    if host:
        raise EngineMissing(
            f"the Docker engine at {host} cannot be used: containers share memory with this "
            "machine, so the engine must run here",
            hint=f"Use the local one: unset DOCKER_HOST. {WITHOUT}",
        )
    rootless = Path(environ.get("XDG_RUNTIME_DIR", "/nonexistent")) / "docker.sock"
    return rootless if rootless.exists() and not DEFAULT_SOCKET.exists() else DEFAULT_SOCKET


def check_engine(path: Path) -> None:
    """Raise `EngineMissing`, which says why, unless something listens at `path` and lets us in."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(TIMEOUT_S)
        try:
            probe.connect(str(path))
        except FileNotFoundError as error:
            raise EngineMissing(
                f"there is no Docker engine: {path} does not exist",
                hint=f"Install Docker, or start it: sudo systemctl start docker. {WITHOUT}",
            ) from error
        except PermissionError as error:
            raise EngineMissing(
                f"the Docker engine at {path} may not be used by this user",
                hint="Once: sudo usermod -aG docker $USER, then log in again. " + WITHOUT,
            ) from error
        except OSError as error:
            raise EngineMissing(
                f"no Docker engine answers at {path}: {error.strerror or 'it took too long'}",
                hint=f"Start it: sudo systemctl start docker. {WITHOUT}",
            ) from error


def engine_answers() -> bool:
    """Return whether an engine can be spoken to."""
    try:
        check_engine(engine_socket())
    except EngineMissing:
        return False
    return True
