# SPDX-License-Identifier: Apache-2.0
"""An evaluation from one call: check, start, play everything, write results."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import RpentBoxError
from rpent_box.evaluate.scale.checking import CheckedEvaluation, check_evaluation
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.executor import Executor
from rpent_box.evaluate.scale.local import LocalExecutor
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.evaluate.scale.preparing import prepare
from rpent_box.evaluate.scale.record import EvalRecord
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.evaluate.scale.summary import EvalSummary, summarize
from rpent_box.evaluate.scale.watcher import Begun, EvalWatcher
from rpent_box.evaluate.scale.writing import Writing
from rpent_box.sim.lines import cannot_write
from rpent_box.sim.record import Started

MakeExecutor: TypeAlias = Callable[[Path, Path], Executor]
"""Given the folders of the evaluation and of this sitting's logs."""


def run_evaluation(config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
    """Play what `config` asks for, into a new folder, and return what came of it.

    A summary whose status is `incomplete` says that some episodes ended in an error. Raises an
    `RpentBoxError`: a `UsageError` or `OutputError` before anything is started; anything else with
    the finished episodes on the disk, and a hint that names the command that goes on. Whatever is
    raised, nothing that was started is left running, and a borrowed worker is left as it was.
    """
    began = time.monotonic()
    checked = check_evaluation(config)
    config = checked.config
    means = _find_means(config, checked, watcher)
    with EvalRecord.create(checked.plan, config) as record:
        return _play(record, checked, means, watcher, began)


def resume_evaluation(run_dir: Path, config: EvalConfig, watcher: EvalWatcher) -> EvalSummary:
    """Play what is left of the evaluation in `run_dir`; else as `run_evaluation`.

    `config` is `read_eval_manifest(run_dir).config` with what is to be done otherwise this time:
    how it is played may change (`envs`, `launcher`, time limits, `ray`), what is played may not.
    One that is complete is left as it is. Raises `UsageError` when another plan was begun there,
    and `ContractError` when it was begun with other programs, naming what differs.
    """
    began = time.monotonic()
    checked = check_evaluation(config)
    config = checked.config
    with EvalRecord.resume(run_dir, checked.plan, config) as record:
        if not record.left:
            record.conclude()
            watcher.on_begin(_begun(record))
            return _summary(record)
        means = _find_means(config, checked, watcher)
        return _play(record, checked, means, watcher, began)


class _Means(Struct, frozen=True):
    """What an evaluation is played with."""

    make_executor: MakeExecutor
    started: Started
    checkpoint: CheckpointManifest | None


def _find_means(config: EvalConfig, checked: CheckedEvaluation, watcher: EvalWatcher) -> _Means:
    if config.ray is not None:
        return _find_cluster(config, checked)
    prepared = prepare(config, checked, watcher)
    return _Means(
        make_executor=lambda run_dir, log_dir: LocalExecutor(
            prepared, run_dir=run_dir, log_dir=log_dir
        ),
        started=Started(
            launcher=prepared.launcher.name, why=prepared.launcher_why, command=config.command
        ),
        checkpoint=prepared.checkpoint,
    )


def _find_cluster(config: EvalConfig, checked: CheckedEvaluation) -> _Means:
    # Late: Ray is an extra, and takes a second to import.
    from rpent_box.evaluate.scale.ray_executor import RayExecutor

    # What it cannot do it refuses when it is made, and that should be before there is a folder.
    RayExecutor(config, checked, log_dir=Path(config.output_dir))
    return _Means(
        make_executor=lambda _run_dir, log_dir: RayExecutor(config, checked, log_dir=log_dir),
        started=Started(
            launcher=checked.launcher,
            why="each machine of the cluster finds its own",
            command=config.command,
        ),
        checkpoint=None,
    )


def _play(
    record: EvalRecord,
    checked: CheckedEvaluation,
    means: _Means,
    watcher: EvalWatcher,
    began: float,
) -> EvalSummary:
    """Play what is left of `record`, with everything in place for it."""
    log_dir = _log_dir(record)
    executor = means.make_executor(record.run_dir, log_dir)
    record.begin(means.started, executor=executor.name, began=began)
    try:
        record.note(checkpoint=means.checkpoint)
        watcher.on_begin(_begun(record))
        Writing(record, checked, Schedule(record.left), watcher).play(executor)
        record.finish()
    except RpentBoxError as error:
        _say_what_is_kept(error, record)
        raise
    return _summary(record)


def _log_dir(record: EvalRecord) -> Path:
    """Make and return the folder of the logs of the sitting that is about to begin."""
    if record.session == 0:
        return record.run_dir
    folder = record.run_dir / f"session-{record.session}"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def _begun(record: EvalRecord) -> Begun:
    return Begun(
        run_dir=str(record.run_dir),
        manifest=record.manifest,
        jobs=tuple(record.jobs),
        rows=tuple(record.rows),
    )


def _summary(record: EvalRecord) -> EvalSummary:
    # As it was written down: the summary of an evaluation is a function of its folder.
    manifest = read_eval_manifest(record.run_dir)
    return summarize(manifest, str(record.run_dir), record.rows, record.failed)


def _say_what_is_kept(error: RpentBoxError, record: EvalRecord) -> None:
    """Add to the error that finished episodes are kept, and how to go on."""
    played = len(record.rows)
    kept = f"{played} finished episode{'s' if played != 1 else ''}" if played else "the logs"
    folder = shlex.quote(str(record.run_dir))
    where = f"Kept: {kept} in {record.run_dir}. Go on: rpent-box eval --resume {folder}"
    error.hint = f"{error.hint}\n{where}" if error.hint else where
