# SPDX-License-Identifier: Apache-2.0
"""Runs a stage: starts it, follows its log, writes down how it went, leaves nothing of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rpent_box.errors import ProgramDied, StartTimeout
from rpent_box.evaluate.stages.record import COMPLETE, StageRecord
from rpent_box.evaluate.stages.stage import Stage, StageWatcher
from rpent_box.evaluate.stages.told import LogReader, Pace, Told, is_told
from rpent_box.evaluate.stages.writer import only_writer
from rpent_box.launch.box import Box
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.program import Program

POLL_S = 0.2
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
    lock = only_writer(Path(stage.folder), lock_in=stage.record.parent)
    with lock, StageRecord.begin(stage, command) as record:
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
                said = log.last_lines()
                raise StartTimeout(
                    f"`{stage.title}` has not come to its end in time. {_last_words(said)}",
                    hint=f"{GO_ON} Its whole log: {stage.log}",
                )
            record.keep()
            time.sleep(POLL_S)
        said = log.last_lines()
    if status.code:
        raise ProgramDied(
            f"`{stage.title}` has ended: {status.reason}. {_last_words(said)}",
            # What ended by itself has said why, and what helps; what was killed has not.
            hint=f"{GO_ON if status.signal else ''} Its whole log: {stage.log}".strip(),
            detail="\n".join(said),
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


def _last_words(said: Sequence[str]) -> str:
    """Return what it said to people, of the lines of this sitting: the log has earlier ones too."""
    words = [line for line in said if line.strip() and not is_told(line)][-LAST_WORDS:]
    if not words:
        return "It said nothing."
    return "It last said:\n" + "\n".join(f"  {line}" for line in words)
