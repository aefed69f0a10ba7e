# SPDX-License-Identifier: Apache-2.0
"""What to start, whichever way it is started, and what can be asked of it while it runs."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from rpent_box.errors import ProgramDied
from rpent_box.launch.recipe import Variant

if TYPE_CHECKING:
    from rpent_box.launch.box import Box
    from rpent_box.launch.records import ProgramRecord

LOG_LINES_IN_MESSAGE = 5
LOG_LINES_IN_DETAIL = 60


class Mount(Struct, frozen=True):
    """One directory or file of the host, as a container sees it."""

    source: str
    target: str
    read_only: bool = True


class Program(Struct, frozen=True, kw_only=True):
    """A worker or a simulator: `python -m MODULE ARGUMENTS`, and all that it may touch.

    Or a stage of making a model, which does its work and ends.
    """

    role: Literal["worker", "simulator", "stage"]
    name: str
    """The backend or the platform, e.g. `mini-wam`; for people."""
    module: str
    """Run with `python -m`, e.g. `rpent_box.worker.serve`."""
    arguments: tuple[str, ...]
    image: str
    """For the docker launcher."""
    variant: Variant = ""
    """Of the image or the environment, for the command that builds it."""
    python: str
    """The interpreter, for the process launcher."""
    root: str | None
    """Working directory for the process launcher; None: the folder of its log."""
    environment: dict[str, str] = {}
    """Added to what the launcher sets. Wins over it."""
    defaults: dict[str, str] = {}
    """Added where neither the launcher nor the caller's environment says; of that, a container sees
    only what is named here."""
    mounts: tuple[Mount, ...] = ()
    """For the docker launcher."""
    gpus: tuple[str, ...] = ()
    """Indices as `nvidia-smi` counts them, or UUIDs. Empty: no GPU is visible."""
    network: bool = False
    """A container gets the host's network when true, and none otherwise."""
    threads: int = 1
    """What OpenMP and the BLAS libraries may use."""
    cpus: tuple[int, ...] = ()
    """The cores it may run on. Empty: all."""
    log: str
    """File on the host that its output is appended to."""


class ExitStatus(Struct, frozen=True, kw_only=True):
    """How a program ended."""

    code: int
    """As a shell counts: 128 + n for signal n."""
    signal: str | None = None
    """`SIGKILL`, …; None when it ended by itself."""
    reason: str
    """In words: `exit code 3`, `killed by SIGKILL`, `out of memory`."""


class Running(Protocol):
    """A started program."""

    @property
    def program(self) -> Program: ...

    @property
    def identifier(self) -> str:
        """A process id or a container id."""

    def describe(self) -> str:
        """Say which program this is, e.g. `worker mini-wam (process 4711)`."""

    def process_id(self) -> int | None:
        """Return its first process as this machine sees it; None when that cannot be known."""

    def record(self) -> ProgramRecord:
        """Return what a reaper needs to end it."""

    def exit_status(self) -> ExitStatus | None:
        """Return how it ended, or None while it runs. Never waits for the program."""

    def last_log_lines(self, count: int = 20) -> str:
        """Return the end of its output; empty when it has said nothing."""

    def stop(self, *, grace_s: float) -> None:
        """Send SIGTERM, wait up to `grace_s`, then kill. Returns when nothing of it is left.

        May be called twice, and after it ended by itself.
        """


class Launcher(Protocol):
    """One way of starting programs."""

    @property
    def name(self) -> Literal["docker", "process"]: ...

    @property
    def view(self) -> Literal["container", "host"]:
        """How a started program sees the box's paths."""

    def check(self, program: Program) -> None:
        """Raise `ImageMissing`, `EnvironmentMissing` or `LaunchError` if it cannot be started."""

    def sees_gpus(self) -> bool:
        """Return False when it is known that its programs would see no NVIDIA GPU."""

    def start(self, program: Program, box: Box) -> Running:
        """Start `program`, note it in `box`'s records, and return at once.

        Raises what `check` raises, and `LaunchError` when the start itself is refused.
        """


def require_alive(*running: Running) -> None:
    """Raise `ProgramDied` if one of `running` has ended: which, how, and its last log lines."""
    for one in running:
        status = one.exit_status()
        if status is not None:
            raise program_died(one, status)


def was_killed(running: Running | None) -> bool:
    """Say whether it has ended by a signal, as what the kernel ends for want of memory does."""
    status = None if running is None else running.exit_status()
    return status is not None and status.signal is not None


def program_died(running: Running, status: ExitStatus) -> ProgramDied:
    """Return the error for a program that ended by itself."""
    lines = running.last_log_lines(LOG_LINES_IN_DETAIL).splitlines()
    end = "\n".join(f"  {line}" for line in lines[-LOG_LINES_IN_MESSAGE:])
    said = f"It last said:\n{end}" if end else "It said nothing."
    return ProgramDied(
        f"{running.describe()} has ended: {status.reason}. {said}",
        hint=f"Its whole log: {running.program.log}",
        detail="\n".join(lines),
    )


def status_from_code(code: int) -> ExitStatus:
    """Read a return code: negative, or above 128 as a shell counts, means a signal."""
    number = -code if code < 0 else code - 128
    name = _signal_name(number) if number > 0 else None
    if name is None:
        return ExitStatus(code=code, reason=f"exit code {code}")
    return ExitStatus(code=128 + number, signal=name, reason=_signal_reason(name))


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _signal_reason(name: str) -> str:
    # The two that a user can do something about, when no engine says more.
    if name == "SIGKILL":
        return "killed by SIGKILL (by hand, or by the kernel when memory runs out)"
    if name == "SIGBUS":
        return "killed by SIGBUS (shared memory or a disk is full)"
    return f"killed by {name}"
