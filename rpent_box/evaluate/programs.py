# SPDX-License-Identifier: Apache-2.0
"""What is started: a worker and one or more simulators, as programs for a launcher."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from rpent_box.evaluate.checking import CheckedPrograms
from rpent_box.evaluate.config import THREADS, ProgramsConfig, StartWatcher
from rpent_box.evaluate.resources import Resources, build_images_of, find_resources
from rpent_box.launch.box import Box
from rpent_box.launch.checkpoints import require_usable
from rpent_box.launch.place import WorkerPlace
from rpent_box.launch.program import Launcher, Program
from rpent_box.launch.recipe import Target, platform_target
from rpent_box.launch.simulator import simulator_program
from rpent_box.launch.worker import require_gpu, worker_program
from rpent_box.sim.platform import Suite

WORKER_LOG = "worker.log"
SIMULATOR_LOG = "simulator.log"


class Recipes(Struct, frozen=True, kw_only=True):
    """Everything that a run's programs are made from, before there is a box for them."""

    config: ProgramsConfig
    checked: CheckedPrograms
    launcher: Launcher
    worker: Resources | None
    """None: the worker is borrowed."""
    simulator: Resources

    def worker_program(
        self,
        box: Box,
        run_dir: Path,
        *,
        log: str = WORKER_LOG,
        max_batch: int | None = None,
        max_wait_ms: float | None = None,
    ) -> Program | None:
        """Return the worker to start; None when it is borrowed.

        `max_batch` and `max_wait_ms` are how it batches, None: its own choice.
        """
        if self.checked.spec is None or self.checked.needs is None or self.worker is None:
            return None
        return worker_program(
            self.checked.spec,
            self.launcher,
            box,
            needs=self.checked.needs,
            checkpoint=self.config.checkpoint,
            platform=self.checked.plugin.name,
            options=self.config.backend_arguments,
            python=self.worker.python,
            root=self.config.root,
            cuda_device=self.config.cuda_device,
            threads=self.config.threads or THREADS,
            log=str(run_dir / log),
            image=self.worker.image,
            max_batch=max_batch,
            max_wait_ms=max_wait_ms,
        )

    def simulator_program(
        self,
        box: Box,
        run_dir: Path,
        place: WorkerPlace,
        *,
        number: int = 0,
        cpus: Sequence[int] = (),
        log: str = SIMULATOR_LOG,
    ) -> Program:
        """Return a simulator to start, able to reach the worker at `place`.

        `number` tells the simulators of a box apart; `cpus` are the cores that it may run on.
        """
        return simulator_program(
            self.checked.plugin,
            self.launcher,
            box,
            options=self.config.platform_arguments,
            output_dir=run_dir,
            threads=THREADS,
            log=str(run_dir / log),
            number=number,
            cpus=cpus,
            python=self.simulator.python,
            image=self.simulator.image,
            worker=place,
            cuda_device=self.config.platform_cuda_device,
        )


def require_worker(
    config: ProgramsConfig, checked: CheckedPrograms, launcher: Launcher, suites: Sequence[Suite]
) -> None:
    """Refuse, before anything is built, what an owned worker could not do here or could not load.

    Raises `LaunchError`, `BadCheckpoint`.
    """
    if checked.spec is None or checked.needs is None:
        return
    require_gpu(checked.spec, checked.needs, launcher)
    for suite in suites:
        require_usable(
            checked.spec, config.backend_arguments, config.checkpoint, checked.plugin.name, suite
        )


def gather(
    config: ProgramsConfig, checked: CheckedPrograms, launcher: Launcher, watcher: StartWatcher
) -> Recipes:
    """Find, or build when asked to, what both programs need. Raises as `find_resources` does."""
    platform, owned = platform_target(checked.plugin), _owned_worker(checked)
    if config.build:
        wanted = [platform] if owned is None else [platform, owned]
        build_images_of(wanted, launcher, config, partial(watcher.on_phase, "images"))
    worker = None
    if owned is not None:
        say = partial(watcher.on_phase, "worker")
        worker = find_resources(owned, config.python, launcher, config, say)
    say = partial(watcher.on_phase, "simulator")
    simulator = find_resources(platform, config.platform_python, launcher, config, say)
    return Recipes(
        config=config, checked=checked, launcher=launcher, worker=worker, simulator=simulator
    )


def _owned_worker(checked: CheckedPrograms) -> Target | None:
    """Return what our worker is started from; None when it is borrowed."""
    if checked.spec is None or checked.needs is None:
        return None
    return Target("backend", checked.spec.name, "cpu" if checked.needs.cpu_variant else "")
