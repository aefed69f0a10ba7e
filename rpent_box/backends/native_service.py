# SPDX-License-Identifier: Apache-2.0
"""A model's own server, as a child of this worker.

Some models come with a server and a protocol of their own. Their worker starts that server, speaks
to it, and ends it:

    with NativeService.start("lingbot server", [python, "-m", "…", "--port", "0"]) as server:
        where = server.wait_ready(answers, timeout_s=600, say=context.say)

The port is never picked and hoped for: the server is started with port 0 and asked of the kernel,
or with a port that `hold_port` holds. The server dies with this process, also when it is killed;
and with the thread that started it, so start it from one that lasts, such as a worker's inferring
thread. Not thread-safe, apart from its log.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TypeAlias

from rpent_box.backends import native_start
from rpent_box.backends.native_ports import Listener, hold_port, listeners
from rpent_box.errors import LaunchError, ProgramDied, StartTimeout

__all__ = ["Listener", "NativeService", "hold_port"]

GRACE_S = 10.0
"""How long a server may take to end after SIGTERM."""
KILL_WAIT_S = 10.0
"""How long the kernel may take to end what was killed."""
KEPT_LINES = 200
LONGEST_LINE = 16 * 1024
"""Bytes of its output that are kept as one line, should it write no end of one."""
LONGEST_PHASE = 100
_POLL_S = 0.05

Ready: TypeAlias = Callable[[Listener], bool]
"""Whether the server answers there. Must return within about a second and raise nothing."""

_log = logging.getLogger("rpent_box.service")


class NativeService:
    """A running server and its process group."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        """Use `start`."""
        self.name = name
        self._process = process
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader = threading.Thread(
            target=self._read, args=(output,), name=f"log of {name}", daemon=True
        )
        self._reader.start()

    @classmethod
    def start(
        cls,
        name: str,
        words: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        root: Path | None = None,
    ) -> NativeService:
        """Start the program `words`, without a shell; its output goes to our log.

        `environment` is added to ours; `root` is its working directory. Raises `LaunchError`.
        """
        starter = [sys.executable, "-I", "-S", str(native_start.__file__), str(os.getpid())]
        try:
            process = subprocess.Popen(
                [*starter, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=root,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            )
        except OSError as error:
            raise LaunchError(
                f"the {name} cannot be started in {root}: {error.strerror}",
                hint="Is the folder there, and is this environment whole?",
            ) from error
        if process.stdout is None:
            raise RuntimeError("a pipe was asked for and not made")
        return cls(name, process, process.stdout)

    @property
    def pid(self) -> int:
        """The server's process id, which is its group's as well."""
        return self._process.pid

    def wait_ready(
        self,
        ready: Ready,
        *,
        timeout_s: float,
        port: int | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Listener:
        """Return where the server answers, as soon as it does.

        Looks at every TCP port that it or a descendant listens on, or at `port` alone. `say` is
        told where it stands, with the last line of its log. Raises `ProgramDied` at once when it
        ends, and `StartTimeout` after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        told = ""
        while True:
            self.require_alive()
            found = [one for one in listeners(self.pid) if port in (None, one.port)]
            for listener in found:
                if ready(listener):
                    self._warn_if_open(listener)
                    return listener
            phase = self._phase(listening=bool(found))
            if say is not None and phase != told:
                say(phase)
            told = phase
            if time.monotonic() >= deadline:
                raise self._too_late(phase, timeout_s, port)
            time.sleep(_POLL_S)

    def require_alive(self, *, grace_s: float = 0.0) -> None:
        """Raise `ProgramDied`, with its last log lines, when the server has ended.

        A dying program loses its connections a moment before it has ended: with `grace_s`, that is
        waited for.
        """
        self._wait(grace_s)
        how = self._how_it_ended()
        if how is not None:
            # What it said last may still be on its way through the pipe.
            self._reader.join(1.0)
            raise ProgramDied(
                f"the {self.name} {how}",
                hint="Its last log lines say why: --verbose shows them, and so does the log.",
                detail=self.last_log_lines(),
            )

    def last_log_lines(self, count: int = 20) -> str:
        """Return the end of what it has written."""
        return "\n".join(list(self._lines)[-count:])

    def close(self, *, grace_s: float = GRACE_S) -> None:
        """End it: SIGTERM to its group, up to `grace_s`, SIGKILL. May be called twice.

        Raises `LaunchError` when it cannot be ended.
        """
        if self._process.returncode is not None:
            return
        # Until it is waited for, its number, which is its group's, cannot become another's.
        self._signal(signal.SIGTERM)
        self._wait(grace_s)
        self._signal(signal.SIGKILL)
        if not self._wait(KILL_WAIT_S):
            raise LaunchError(
                f"the {self.name} (process {self.pid}) is still there after SIGKILL",
                hint="It waits in the kernel, often for a GPU or a disk.",
            )
        self._process.wait(KILL_WAIT_S)
        self._reader.join(1.0)

    def __enter__(self) -> NativeService:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, output: IO[bytes]) -> None:
        with output:
            while line := output.readline(LONGEST_LINE):
                # A progress bar goes back to the line's start again and again.
                text = line.decode(errors="replace").rstrip().rpartition("\r")[2]
                self._lines.append(text)
                _log.info("%s: %s", self.name, text)

    def _how_it_ended(self) -> str | None:
        """Return how, in words; None while it runs. Leaves the zombie, which keeps its number."""
        if self._process.returncode is not None:
            return f"was ended (exit code {self._process.returncode})"
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            ended = os.waitid(os.P_PID, self.pid, flags)
        except ChildProcessError:  # Where SIGCHLD is ignored, the kernel keeps no zombies.
            return "has ended"
        if ended is None:
            return None
        if ended.si_code == os.CLD_EXITED:
            return f"ended with exit code {ended.si_status}"
        return f"was killed by {_signal_name(ended.si_status)}"

    def _phase(self, *, listening: bool) -> str:
        waits = "does not answer yet" if listening else "is loading"
        last = next((line for line in reversed(self._lines) if line), "")
        return f"the {self.name} {waits}: {last}"[:LONGEST_PHASE].rstrip(": ")

    def _too_late(self, phase: str, timeout_s: float, port: int | None) -> StartTimeout:
        where = [f"{one.address}:{one.port}" for one in listeners(self.pid)]
        wanted = "" if port is None else f", wanted port {port}"
        return StartTimeout(
            f"after {timeout_s:g} s {phase}",
            hint=f"It listens on {', '.join(where) or 'no port'}{wanted}. Allow it more time, "
            "or read its log.",
            detail=self.last_log_lines(),
        )

    def _warn_if_open(self, listener: Listener) -> None:
        if listener.is_open:
            _log.warning(
                "the %s listens on %s:%d, every address of this machine; its own code decides "
                "that. In a container without a network nobody else can reach it",
                self.name,
                listener.address,
                listener.port,
            )

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            # Not yet in a group of its own.
            self._process.send_signal(number)

    def _wait(self, wait_s: float) -> bool:
        """Wait for the server's end, without reaping it; False when it has not come."""
        deadline = time.monotonic() + wait_s
        while self._how_it_ended() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S / 5)
        return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # One of the real-time signals, most of which have no name.
        return f"signal {number}"
