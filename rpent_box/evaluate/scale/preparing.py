# SPDX-License-Identifier: Apache-2.0
"""What one machine plays an evaluation with, found and checked before anything is started there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec import Struct

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.evaluate.config import StartWatcher
from rpent_box.evaluate.programs import Recipes, gather, require_worker
from rpent_box.evaluate.scale.checking import CheckedEvaluation
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.launch.checkpoints import checkpoint_of_run
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.program import Launcher
from rpent_box.sim.planning import require_suite


class Prepared(Struct, frozen=True, kw_only=True):
    """The programs of one machine, before there is a box for them."""

    config: EvalConfig
    checked: CheckedEvaluation
    launcher: Launcher
    launcher_why: str
    recipes: Recipes
    checkpoint: CheckpointManifest | None
    """None: no file decides the actions, or the worker is borrowed."""


def prepare(config: EvalConfig, checked: CheckedEvaluation, watcher: StartWatcher) -> Prepared:
    """Choose how programs are started here, and find or build what they are started from.

    Raises `LaunchError` and its kinds, and `BadCheckpoint` for a checkpoint that cannot be used, or
    is not for every suite of the plan.
    """
    launcher, why = choose_launcher(checked.launcher)
    watcher.on_launcher(launcher.name, why)
    require_worker(config, checked, launcher, checked.suites)
    recipes = gather(config, checked, launcher, watcher)
    # Last, because gigabytes are hashed.
    checkpoint = _inspect(config, checked, watcher)
    return Prepared(
        config=config,
        checked=checked,
        launcher=launcher,
        launcher_why=why,
        recipes=recipes,
        checkpoint=checkpoint,
    )


def require_suites(files: CheckpointManifest, checked: CheckedEvaluation) -> None:
    """Raise `BadCheckpoint` when `files` are tied to suites, and one that is played is not it."""
    for suite in checked.suites:
        require_suite(files, suite)


def _inspect(
    config: EvalConfig, checked: CheckedEvaluation, watcher: StartWatcher
) -> CheckpointManifest | None:
    """Return which files will decide the actions. Raises `BadCheckpoint`."""
    if checked.spec is None:
        return None
    manifest = checkpoint_of_run(
        checked.spec,
        config.backend_arguments,
        config.checkpoint,
        checked.plan.platform,
        None,
        say=partial(watcher.on_phase, "checkpoint"),
        cache=None if config.cache_dir is None else Path(config.cache_dir),
    )
    if manifest is not None:
        require_suites(manifest, checked)
        watcher.on_phase("checkpoint", "ready")
    return manifest
