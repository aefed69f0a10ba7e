# SPDX-License-Identifier: Apache-2.0
"""The Docker engine through its SDK: one seam where the SDK's errors become ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from rpent_box.errors import EngineMissing, ImageMissing, LaunchError
from rpent_box.launch.engine_socket import WITHOUT, check_engine, engine_socket
from rpent_box.launch.program import Program
from rpent_box.launch.recipe import build_command

OLDEST_API = (1, 41)
OLDEST_NAME = "20.10"
TIMEOUT_S = 60.0


class Engine:
    """A Docker engine of this machine that answers."""

    def __init__(self, client: docker.DockerClient, socket: Path) -> None:
        """Raises `LaunchError` when it is too old."""
        self.client = client
        self.socket = socket
        with translated("asking the Docker engine for its version"):
            version = client.version()
            self.version: str = version["Version"]
            self._require_api(str(version["ApiVersion"]))
            info = client.info()
        options = [str(option) for option in info.get("SecurityOptions") or ()]
        self.has_nvidia_runtime = "nvidia" in (info.get("Runtimes") or {})
        self.rootless = any("name=rootless" in option for option in options)
        self.remaps_users = any("name=userns" in option for option in options)
        self.selinux = any("name=selinux" in option for option in options)

    @classmethod
    def connect(cls) -> Engine:
        """Connect to this machine's engine. Raises `EngineMissing`, or `LaunchError` if too old."""
        socket = engine_socket()
        check_engine(socket)
        with translated(f"connecting to the Docker engine at {socket}"):
            client = docker.DockerClient(
                base_url=f"unix://{socket}", version="auto", timeout=TIMEOUT_S
            )
        return cls(client, socket)

    def require_image(self, program: Program) -> None:
        """Raise `ImageMissing` unless `program`'s image is built."""
        with translated(f"looking for the image {program.image}"):
            try:
                self.client.images.get(program.image)
            except ImageNotFound as error:
                raise ImageMissing(
                    f"the image {program.image} of the {program.role} {program.name} is not built",
                    hint=f"Build it: {build_command(program.name, program.variant)}. {WITHOUT}",
                ) from error

    def _require_api(self, text: str) -> None:
        api = tuple(int(part) for part in text.split("."))
        if api < OLDEST_API:
            raise LaunchError(
                f"the Docker engine {self.version} at {self.socket} is too old; wanted "
                f"{OLDEST_NAME} or newer",
                hint=f"Update Docker. {WITHOUT}",
            )


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn the SDK's errors into `EngineMissing` (it stopped answering) or `LaunchError`."""
    try:
        yield
    except APIError as error:
        raise LaunchError(
            f"the Docker engine refused while {doing}: {error.explanation or error}",
            hint="See: rpent-box doctor",
        ) from error
    except (DockerException, requests.RequestException) as error:
        raise EngineMissing(
            f"the Docker engine did not answer while {doing}: {error}",
            hint=f"Is it running? sudo systemctl status docker. {WITHOUT}",
        ) from error
