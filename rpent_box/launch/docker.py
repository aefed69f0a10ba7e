# SPDX-License-Identifier: Apache-2.0
"""Programs in containers: the caller's user, no capabilities, no network, a read-only root."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig
from docker.types import Mount as DockerMount

from rpent_box.errors import LaunchError
from rpent_box.launch.box import Box
from rpent_box.launch.containers import (
    LABEL_BOX,
    LABEL_MACHINE,
    LABEL_OWNER,
    LABEL_ROLE,
    remove_container,
    this_machine,
)
from rpent_box.launch.engine import Engine, translated
from rpent_box.launch.follow import LogFollower
from rpent_box.launch.gpus import ALL_GPUS, check_gpus, is_a_gpu_here
from rpent_box.launch.logs import last_lines
from rpent_box.launch.program import ExitStatus, Program, Running, status_from_code
from rpent_box.launch.records import ProgramRecord
from rpent_box.launch.settings import common_environment

PIDS_LIMIT = 4096
"""Threads count too. A limit at all keeps a runaway program from taking the machine with it."""
TMPFS = {"/tmp": "rw,exec,nosuid,nodev,mode=1777,size=4g"}
"""Executable, because compilers of kernels load what they have written there."""
LOG_SIZE = "10m"
LOG_FILES = "2"
FOLLOW_S = 3.0
_RUNS = ("created", "running", "paused", "restarting")

Settings = dict[str, Any]
"""Keyword arguments of the SDK's `containers.create`."""


class DockerLauncher:
    """Starts programs in containers of one engine."""

    name: Literal["docker"] = "docker"
    view: Literal["container"] = "container"

    def __init__(self, engine: Engine, inherited: Mapping[str, str] | None = None) -> None:
        """`inherited` is where a program's defaults may be overridden; None: our environment."""
        self.engine = engine
        self._inherited = dict(os.environ if inherited is None else inherited)

    def check(self, program: Program) -> None:
        """Raise `ImageMissing` without its image, `LaunchError` without its GPU."""
        self.engine.require_image(program)
        check_gpus(program.gpus)

    def sees_gpus(self) -> bool:
        """Say whether the engine may have a GPU to give: it says so, or this machine shows one."""
        return self.engine.has_nvidia_runtime or is_a_gpu_here()

    def start(self, program: Program, box: Box) -> Running:
        """Create and start a container, and copy what it says into the program's log."""
        self.check(program)
        # Before the first container: one that is made just before we die must be found.
        box.expect_containers()
        settings = container_settings(program, box.id, self.engine, self._inherited)
        with translated(f"creating a container for the {program.role} {program.name}"):
            container = self.engine.client.containers.create(**settings)
        try:
            _start(container, program)
            running = DockerRunning(program, container, self.engine)
        except BaseException:
            remove_container(str(container.id))
            raise
        box.record(running)
        return running


class DockerRunning:
    """A container that was started."""

    def __init__(self, program: Program, container: Container, engine: Engine) -> None:
        """Begin to follow its output. Raises `OutputError` when the log cannot be written."""
        self.program = program
        self._container = container
        self._follower = LogFollower(container.id, engine.socket, program.log)
        self._status: ExitStatus | None = None
        self._stopped = False

    @property
    def identifier(self) -> str:
        """The container's id."""
        return str(self._container.id)

    def describe(self) -> str:
        """Say which program this is."""
        return f"{self.program.role} {self.program.name} (container {self._container.short_id})"

    def process_id(self) -> int | None:
        """Return the container's first process, where this machine sees it as the engine does."""
        if self.exit_status() is not None:
            return None
        pid = int(self._container.attrs["State"].get("Pid") or 0)
        try:
            cgroups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            return None
        # The engine may count processes of another machine, or of a namespace around this one.
        return pid if self.identifier in cgroups else None

    def record(self) -> ProgramRecord:
        """Return what a reaper needs to end it."""
        return ProgramRecord(
            launcher="docker",
            identifier=self.identifier,
            name=f"{self.program.role} {self.program.name}",
            log=self.program.log,
        )

    def exit_status(self) -> ExitStatus | None:
        """Return how it ended, or None."""
        if self._status is None:
            self._status = self._ask_status()
        return self._status

    def last_log_lines(self, count: int = 20) -> str:
        """Return the end of its log."""
        if self.exit_status() is not None:
            self._follower.wait(FOLLOW_S)
        return last_lines(self.program.log, count)

    def stop(self, *, grace_s: float) -> None:
        """SIGTERM, wait, SIGKILL, then remove the container."""
        if self._stopped:
            return
        with translated(f"stopping {self.describe()}"):
            try:
                self._container.stop(timeout=max(0, round(grace_s)))
            except NotFound:
                self._status = self._status or _removed()
        self.exit_status()
        self._follower.wait(FOLLOW_S)
        remove_container(self.identifier)
        self._stopped = True

    def _ask_status(self) -> ExitStatus | None:
        with translated(f"looking after {self.describe()}"):
            try:
                self._container.reload()
            except NotFound:
                return _removed()
        state = self._container.attrs["State"]
        return None if state["Status"] in _RUNS else status_of(state)


def status_of(state: dict[str, Any]) -> ExitStatus:
    """Read how a container ended from the engine's `State`."""
    if state.get("OOMKilled"):
        return ExitStatus(
            code=int(state["ExitCode"]), signal="SIGKILL", reason="out of memory (OOMKilled)"
        )
    if state.get("Error"):
        return ExitStatus(code=int(state["ExitCode"]), reason=str(state["Error"]))
    return status_from_code(int(state["ExitCode"]))


def container_settings(
    program: Program, box_id: str, engine: Engine, inherited: Mapping[str, str]
) -> Settings:
    """Return everything that the engine is told about `program`'s container.

    Of `inherited`, the caller's environment, it sees only what `program.defaults` names.
    """
    return {
        "image": program.image,
        "name": f"rpent-box-{box_id}-{program.role}-{secrets.token_hex(2)}",
        # An image's entrypoint is its `python -m`: it knows where its Python is.
        "command": [program.module, *program.arguments],
        "environment": _environment(program, inherited),
        "mounts": [
            DockerMount(mount.target, mount.source, type="bind", read_only=mount.read_only)
            for mount in program.mounts
        ],
        "labels": {
            LABEL_BOX: box_id,
            LABEL_ROLE: program.role,
            LABEL_OWNER: str(os.getuid()),
            LABEL_MACHINE: this_machine(),
        },
        # A first process that reaps children and passes signals on.
        "init": True,
        "log_config": LogConfig(
            type="json-file", config={"max-size": LOG_SIZE, "max-file": LOG_FILES}
        ),
        **_confinement(program, engine),
        **_resources(program),
    }


def _confinement(program: Program, engine: Engine) -> Settings:
    settings: Settings = {
        # In a rootless engine, root inside is the caller outside.
        "user": "0:0" if engine.rootless else f"{os.getuid()}:{os.getgid()}",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "tmpfs": TMPFS,
        # With its own network it could not reach a service on this machine's loopback, which is
        # where a backend that declares a need for the network usually has one.
        "network_mode": "host" if program.network else "none",
        "pids_limit": PIDS_LIMIT,
    }
    if engine.remaps_users:
        settings["userns_mode"] = "host"
    if engine.selinux:
        # Labels would forbid the shared directories; relabelling /dev/shm would be worse.
        settings["security_opt"] = [*settings["security_opt"], "label=disable"]
    return settings


def _resources(program: Program) -> Settings:
    settings: Settings = {}
    if program.cpus:
        settings["cpuset_cpus"] = ",".join(str(cpu) for cpu in program.cpus)
    if program.gpus == ALL_GPUS:
        settings["device_requests"] = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    elif program.gpus:
        settings["device_requests"] = [
            DeviceRequest(device_ids=list(program.gpus), capabilities=[["gpu"]])
        ]
    return settings


def _environment(program: Program, inherited: Mapping[str, str]) -> dict[str, str]:
    environment = {
        **{name: inherited.get(name, text) for name, text in program.defaults.items()},
        **common_environment(program),
        # The caller's user has no entry in the image's passwd, so nothing tells these.
        "HOME": "/tmp",
        "USER": "rpent-box",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
    if program.gpus:
        # Simulators draw on a GPU as well as compute on it.
        environment["NVIDIA_DRIVER_CAPABILITIES"] = "compute,utility,graphics"
    return {**environment, **program.environment}


def _start(container: Container, program: Program) -> None:
    try:
        container.start()
    except APIError as error:
        explanation = str(error.explanation or error)
        if "could not select device driver" in explanation:
            raise LaunchError(
                "the Docker engine cannot give a GPU to a container: the NVIDIA Container Toolkit "
                "is not set up",
                hint="Install it, then: sudo nvidia-ctk runtime configure --runtime=docker && "
                "sudo systemctl restart docker. Or: --launcher process",
                detail=explanation,
            ) from error
        raise LaunchError(
            f"the container of the {program.role} {program.name} cannot be started: "
            f"{_first_line(explanation)}",
            hint="See: rpent-box doctor. The engine's whole answer: --verbose",
            detail=explanation,
        ) from error


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:400] if text.strip() else "the engine does not say why"


def _removed() -> ExitStatus:
    return ExitStatus(code=1, reason="its container was removed by someone else")
