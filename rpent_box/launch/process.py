# SPDX-License-Identifier: Apache-2.0
"""Programs as plain processes: a given Python in a given working directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal

from rpent_box.errors import EnvironmentMissing, LaunchError
from rpent_box.launch.box import Box
from rpent_box.launch.gpus import ALL_GPUS, check_gpus, is_a_gpu_here
from rpent_box.launch.logs import last_lines, open_log
from rpent_box.launch.marked import MARK, end_processes, marked_processes, start_ticks
from rpent_box.launch.program import ExitStatus, Program, Running, status_from_code
from rpent_box.launch.recipe import build_command
from rpent_box.launch.records import ProgramRecord
from rpent_box.launch.settings import common_environment

_NOT_INHERITED = ("PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
# These describe the caller's interpreter; another one that believed them would not start.


class ProcessLauncher:
    """Starts programs in sessions of their own, so that a Ctrl-C at the terminal spares them."""

    name: Literal["process"] = "process"
    view: Literal["host"] = "host"

    def __init__(self, inherited: Mapping[str, str] | None = None) -> None:
        """`inherited` is the environment to start from; None: this process's own."""
        self._inherited = dict(os.environ if inherited is None else inherited)

    def check(self, program: Program) -> None:
        """Raise `EnvironmentMissing` without its Python, `LaunchError` without its root or GPU."""
        if shutil.which(program.python) is None:
            raise EnvironmentMissing(
                f"there is no Python at {program.python} for the {program.role} {program.name}",
                hint=f"Make it: {build_command(program.name, program.variant)} --launcher process",
            )
        if program.root is not None and not Path(program.root).is_dir():
            raise LaunchError(
                f"the working directory {program.root} of the {program.role} {program.name} "
                "does not exist",
                hint="Give an existing directory with --root.",
            )
        check_gpus(program.gpus)
        _check_cpus(program)

    def sees_gpus(self) -> bool:
        """Say whether this machine shows a GPU."""
        return is_a_gpu_here()

    def start(self, program: Program, box: Box) -> Running:
        """Start `program` with closed stdin, its output going to its log."""
        self.check(program)
        with open_log(program.log) as log:
            process = self._spawn(program, box, log)
        running = ProcessRunning(program, process, box.id)
        box.record(running)
        return running

    def _spawn(self, program: Program, box: Box, log: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                [_whole(program.python), "-m", program.module, *program.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Python imports from here first: never from wherever the caller happens to be.
                cwd=program.root or Path(program.log).absolute().parent,
                env=self._environment(program, box),
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            raise LaunchError(
                f"{program.python} cannot be started for the {program.role} {program.name}: "
                f"{error.strerror}",
                hint=f"Make it anew: rpent-box build {program.name} --launcher process",
            ) from error
        if program.cpus:
            os.sched_setaffinity(process.pid, program.cpus)
        return process

    def _environment(self, program: Program, box: Box) -> dict[str, str]:
        # What a killed program leaves there goes with the room.
        scratch = box.paths.room / "tmp"
        scratch.mkdir(mode=0o700, exist_ok=True)
        kept = {name: text for name, text in self._inherited.items() if name not in _NOT_INHERITED}
        ours = {**common_environment(program), **_visible_gpus(program), "TMPDIR": str(scratch)}
        return {**program.defaults, **kept, **ours, **program.environment, MARK: box.id}


def _whole(python: str) -> str:
    """Return `python` so that it is found from another working directory; links stay as given."""
    return os.path.abspath(python) if os.sep in python else python


class ProcessRunning:
    """A started process and its descendants."""

    def __init__(self, program: Program, process: subprocess.Popen[bytes], box_id: str) -> None:
        self.program = program
        self._process = process
        self._box_id = box_id
        self._ticks = start_ticks(process.pid)
        self._stopped = False

    @property
    def identifier(self) -> str:
        """The process id."""
        return str(self._process.pid)

    def describe(self) -> str:
        """Say which program this is."""
        return f"{self.program.role} {self.program.name} (process {self._process.pid})"

    def process_id(self) -> int | None:
        """Return the process id; None once it has ended."""
        return self._process.pid if self._process.poll() is None else None

    def record(self) -> ProgramRecord:
        """Return what a reaper needs to end it."""
        return ProgramRecord(
            launcher="process",
            identifier=self.identifier,
            name=f"{self.program.role} {self.program.name}",
            log=self.program.log,
            started_ticks=self._ticks,
        )

    def exit_status(self) -> ExitStatus | None:
        """Return how it ended, or None."""
        code = self._process.poll()
        return None if code is None else status_from_code(code)

    def last_log_lines(self, count: int = 20) -> str:
        """Return the end of its log."""
        return last_lines(self.program.log, count)

    def stop(self, *, grace_s: float) -> None:
        """SIGTERM to the program alone, so that it can end its children; then kill the rest."""
        if self._stopped:
            return
        if self._process.poll() is None:
            self._process.terminate()
            self._wait(grace_s)
        left = end_processes(marked_processes(self._box_id, session=self._process.pid), grace_s=0.0)
        if self._process.poll() is None:
            self._process.kill()
            self._wait(5.0)
        if left or self._process.poll() is None:
            raise LaunchError(
                f"{self.describe()} could not be ended: still there after SIGKILL",
                hint="It waits in the kernel, often for a GPU or a disk. Later: rpent-box gc",
            )
        self._stopped = True

    def _wait(self, wait_s: float) -> None:
        try:
            self._process.wait(timeout=wait_s)
        except subprocess.TimeoutExpired:
            return


def _check_cpus(program: Program) -> None:
    allowed = os.sched_getaffinity(0)
    if not set(program.cpus) <= allowed:
        raise LaunchError(
            f"the {program.role} {program.name} cannot run on the cores {list(program.cpus)}: "
            f"this process may use {sorted(allowed)}"
        )


def _visible_gpus(program: Program) -> dict[str, str]:
    if program.gpus == ALL_GPUS or (program.role != "worker" and not program.gpus):
        # A simulator without a GPU of its own may still draw on one: leave what is inherited.
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(program.gpus)}
