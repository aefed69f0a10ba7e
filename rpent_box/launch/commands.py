# SPDX-License-Identifier: Apache-2.0
"""Other programs' commands: output to a log, a deadline, and nothing left when one fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from rpent_box.errors import LaunchError, OutputError
from rpent_box.launch.logs import last_lines, open_log

POLL_S = 0.1
SAY_EVERY_S = 2.0
STOP_S = 5.0
ERROR_LINES = 16
NEWS_LINES = 5
_NOISE = "sha256:"
"""BuildKit logs a digest after each step's name."""
_FRAME = re.compile(
    r"-+$|\s*> \[|executor failed running|#\d+ ERROR: |(ERROR: )?failed to solve"
    r"|\S*Dockerfile\S*:\d+$|\s*\d+ \| "
)
"""How it ends a log: the failing step and its place again, after what that step said."""


class Command(Struct, frozen=True, kw_only=True):
    """A command as a list of words; no shell reads it."""

    what: str
    """For people, e.g. `building rpent-box/mini-wam:0.1.0`."""
    words: tuple[str, ...]
    log: Path
    """Written anew."""
    environment: Mapping[str, str]
    """The command's whole environment."""
    cwd: Path


def run_all(commands: Sequence[Command], *, timeout_s: float, say: Callable[[str], None]) -> None:
    """Run `commands` side by side until all have succeeded.

    `say` is told now and then what each logged last. Raises `LaunchError` with the last log lines
    of the first that fails or is late; the others are ended then, and on Ctrl-C.
    """
    started: list[_Started] = []
    try:
        for command in commands:
            say(command.what)
            started.append(_Started(command))
        _wait(started, time.monotonic() + timeout_s, say)
    finally:
        for one in started:
            one.end()


class _Started:
    def __init__(self, command: Command) -> None:
        self.command = command
        self.said = ""
        with _new_log(command.log) as log:
            try:
                # A group of its own, so that ending it ends its children too.
                self.process = subprocess.Popen(
                    command.words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=dict(command.environment),
                    cwd=command.cwd,
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(
                    f"{command.what}: {command.words[0]} cannot be run: {error.strerror}"
                ) from error

    def done(self) -> bool:
        """Raise `LaunchError` if it failed."""
        code = self.process.poll()
        if code:
            raise self.failed(f"exit code {code}")
        return code == 0

    def news(self) -> str:
        """Return the last log line if it is a new one."""
        lines = last_lines(str(self.command.log), NEWS_LINES).splitlines()
        telling = [line.strip() for line in lines if line.strip() and _NOISE not in line]
        if not telling or telling[-1] == self.said:
            return ""
        self.said = telling[-1]
        return self.said

    def failed(self, how: str) -> LaunchError:
        lines = last_lines(str(self.command.log), ERROR_LINES)
        telling = [line for line in lines.splitlines() if line and not _FRAME.match(line)]
        end = "\n".join(f"  {line}" for line in telling[-4:])
        return LaunchError(
            f"{self.command.what} failed: {how}. It last said:\n{end}",
            hint=f"Its whole log: {self.command.log}",
            detail=lines,
        )

    def end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(STOP_S)
            except (PermissionError, subprocess.TimeoutExpired):
                # A command that sudo runs is root's: it ends by itself, or not at all.
                continue


def _new_log(path: Path) -> IO[bytes]:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"the log {path} cannot be replaced: {error.strerror}") from error
    return open_log(path)


def _wait(started: Sequence[_Started], deadline: float, say: Callable[[str], None]) -> None:
    say_at = time.monotonic() + SAY_EVERY_S
    while waiting := [one for one in started if not one.done()]:
        now = time.monotonic()
        if now >= deadline:
            raise waiting[0].failed("it was not done in time")
        if now >= say_at:
            say_at = now + SAY_EVERY_S
            for one in waiting:
                if line := one.news():
                    say(f"{one.command.what}: {line}")
        time.sleep(POLL_S)
