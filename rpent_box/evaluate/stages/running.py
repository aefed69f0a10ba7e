# SPDX-License-Identifier: Apache-2.0
"""Runs a stage: starts it, follows its log, writes down how it went, leaves nothing of it."""

from __future__ import annotations

import time

from rpent_box.errors import OutputError, ProgramDied, StartTimeout, TransportError
from rpent_box.evaluate.stages.record import COMPLETE, StageRecord
from rpent_box.evaluate.stages.stage import Stage, StageWatcher
from rpent_box.evaluate.stages.told import LogReader, Pace, Told, is_told
from rpent_box.launch.box import Box
from rpent_box.launch.logs import last_lines
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.program import Program
from rpent_box.transport.lease import Lease

POLL_S = 0.2
LAST_LINES = 60
LAST_WORDS = 5
GO_ON = "The same command goes on where it stopped."


def run_stage(
    stage: Stage,
    watcher: StageWatcher,
    *,
    timeout_s: float,
    command: tuple[str, ...] = (),
    runtime_dir: str | None = None,
) -> None:
    """Run `stage` to its end, and write down how that went.

    `command` is what it was asked by. Raises `ProgramDied` with its last words when it fails,
    `StartTimeout` when it takes longer than `timeout_s`, `OutputError` when its folder cannot be
    written, or another command works there. Whatever is raised, Ctrl-C too, nothing of it is left
    running; and the box's reaper ends it where this process is killed.
    """
    with _only_writer(stage), StageRecord.begin(stage, command) as record:
        watcher.on_stage(stage)
        began = time.monotonic()
        _run(stage, watcher, record, deadline=began + timeout_s, runtime_dir=runtime_dir)
        record.end(COMPLETE)
        watcher.on_end(stage, time.monotonic() - began)


def _run(
    stage: Stage,
    watcher: StageWatcher,
    record: StageRecord,
    *,
    deadline: float,
    runtime_dir: str | None,
) -> None:
    with Box.create(runtime_dir) as box, LogReader(stage.log) as log:
        running = ProcessLauncher().start(_program(stage), box)
        pace = Pace()
        while True:
            # Before its log is read: then nothing that it said is missed.
            status = running.exit_status()
            for line in log.new_lines():
                told = Told.read(line)
                if told is None:
                    watcher.on_words(line)
                    continue
                record.note(told)
                watcher.on_told(told, pace.left_s(told))
            if status is not None:
                break
            if time.monotonic() >= deadline:
                raise StartTimeout(
                    f"`{stage.title}` has not come to its end in time. {_last_words(stage)}",
                    hint=f"{GO_ON} Its whole log: {stage.log}",
                )
            record.keep()
            time.sleep(POLL_S)
    if status.code:
        raise ProgramDied(
            f"`{stage.title}` has ended: {status.reason}. {_last_words(stage)}",
            # What ended by itself has said why, and what helps; what was killed has not.
            hint=f"{GO_ON if status.signal else ''} Its whole log: {stage.log}".strip(),
            detail=last_lines(str(stage.log), LAST_LINES),
        )


def _program(stage: Stage) -> Program:
    return Program(
        role="stage",
        name=stage.name,
        module=stage.module,
        arguments=(*stage.arguments, *stage.how),
        image="",
        python=stage.python,
        root=None,
        environment=stage.environment,
        threads=stage.threads,
        log=str(stage.log),
    )


def _last_words(stage: Stage) -> str:
    lines = last_lines(str(stage.log), LAST_LINES).splitlines()
    words = [line for line in lines if line.strip() and not is_told(line)][-LAST_WORDS:]
    if not words:
        return "It said nothing."
    return "It last said:\n" + "\n".join(f"  {line}" for line in words)


def _only_writer(stage: Stage) -> Lease:
    """Return the lock of the stage's folder. Raises `OutputError`."""
    path = stage.record.parent / ".writer"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return Lease.hold(path)
    except TransportError as error:
        raise OutputError(
            f"another command is at work in {stage.folder} at this moment",
            hint="Wait for it, or stop it (Ctrl-C there); this one then goes on.",
        ) from error
    except OSError as error:
        raise OutputError(f"{path.parent} cannot be written: {error.strerror}") from error
