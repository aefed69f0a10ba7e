# SPDX-License-Identifier: Apache-2.0
"""The Docker engine: one seam where the SDK's errors become ours, and its containers by label."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container

from rpent_box.errors import EngineMissing, ImageMissing, LaunchError
from rpent_box.launch.engine_socket import WITHOUT, check_engine, engine_socket
from rpent_box.launch.held import is_dead
from rpent_box.launch.program import Program
from rpent_box.transport.paths import GRANTS_ROOT, SHM

LABEL_BOX = "rpent-box.box"
LABEL_ROLE = "rpent-box.role"
LABEL_OWNER = "rpent-box.owner"
LABEL_MACHINE = "rpent-box.machine"
"""`<boot id>/<device of /dev/shm>`: an engine's socket may be lent to other namespaces, where a box
that we cannot see lives on."""

OLDEST_API = (1, 41)
OLDEST_NAME = "20.10"
TIMEOUT_S = 60.0
STOP_S = 2.0
"""For programs that see by themselves, within half a second, that their owner is gone."""
GONE_TIMEOUT_S = 10.0
POLL_S = 0.1

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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
            options = [str(option) for option in client.info().get("SecurityOptions") or ()]
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
                    hint=f"Build it: rpent-box build {program.name}. {WITHOUT}",
                ) from error

    def remove_box(self, box_id: str) -> list[str]:
        """End and remove every container of `box_id`; return their names."""
        return self._remove_all(self._labelled(f"{LABEL_BOX}={box_id}"))

    def remove_lost(self) -> list[str]:
        """End and remove this user's containers whose box is gone; return their names."""
        found = self._labelled(f"{LABEL_OWNER}={os.getuid()}")
        return self._remove_all([one for one in found if _is_lost(one)])

    def _labelled(self, label: str) -> list[Container]:
        with translated("listing containers"):
            found: list[Container] = self.client.containers.list(
                all=True, filters={"label": label}, ignore_removed=True
            )
        return found

    def _remove_all(self, containers: list[Container]) -> list[str]:
        # All are told first, so that many take hardly longer than one.
        for one in containers:
            _tell_to_end(one)
        deadline = time.monotonic() + STOP_S
        for one in containers:
            _wait_until_ended(one, deadline)
        for one in containers:
            remove_container(one)
        return [f"container {one.name}" for one in containers]

    def _require_api(self, text: str) -> None:
        api = tuple(int(part) for part in text.split("."))
        if api < OLDEST_API:
            raise LaunchError(
                f"the Docker engine {self.version} at {self.socket} is too old; wanted "
                f"{OLDEST_NAME} or newer",
                hint=f"Update Docker. {WITHOUT}",
            )


def remove_container(container: Container) -> None:
    """Kill it if it runs and remove it; return once it has gone. Two may do so at once."""
    with translated(f"removing the container {container.name}"), contextlib.suppress(NotFound):
        try:
            container.remove(force=True, v=True)
        except APIError as error:
            if error.status_code != 409:
                raise
            # Someone else is removing it: a reaper, or a sweep.
            _wait_until_gone(container)


def this_machine() -> str:
    """Return what `LABEL_MACHINE` holds for containers started here and now."""
    return f"{_BOOT_ID.read_text().strip()}/{os.stat(SHM).st_dev}"


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


def _tell_to_end(container: Container) -> None:
    with translated(f"stopping the container {container.name}"):
        try:
            container.kill("SIGTERM")
        except APIError as error:
            # Gone, or not running: nothing to tell.
            if error.status_code not in (404, 409):
                raise


def _wait_until_ended(container: Container, deadline: float) -> None:
    with translated(f"stopping the container {container.name}"), contextlib.suppress(NotFound):
        while time.monotonic() < deadline:
            container.reload()
            if container.status != "running":
                return
            time.sleep(POLL_S)


def _is_lost(container: Container) -> bool:
    labels = container.labels
    machine = labels.get(LABEL_MACHINE, "")
    if machine == this_machine():
        return is_dead(GRANTS_ROOT / labels.get(LABEL_BOX, "none"))
    # No box outlives a reboot. One of this boot but of another /dev/shm is not ours to judge.
    booted_before = machine.split("/")[0] != this_machine().split("/")[0]
    return booted_before and str(container.status) != "running"


def _wait_until_gone(container: Container) -> None:
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while time.monotonic() < deadline:
        container.reload()
        time.sleep(POLL_S)
