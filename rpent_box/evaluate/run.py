# SPDX-License-Identifier: Apache-2.0
"""A run from one call: check, start a worker and a simulator, play, write results."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.contracts.control_messages import (
    ConnectWorker,
    PlayEpisode,
    Restart,
    SimReady,
    WorkerConnected,
)
from rpent_box.errors import RpentBoxError
from rpent_box.evaluate.checking import Checked, check
from rpent_box.evaluate.config import RunConfig, RunWatcher, SilentWatcher
from rpent_box.evaluate.programs import Recipes, gather, require_worker
from rpent_box.evaluate.resources import image_ids
from rpent_box.evaluate.seat import Patience, SimulatorSeat
from rpent_box.evaluate.starting import Programs, wait_both
from rpent_box.evaluate.summary import RunSummary, figures, video_paths
from rpent_box.evaluate.watchdog import play_again_if_lost
from rpent_box.launch.box import Box
from rpent_box.launch.checkpoints import checkpoint_of_run
from rpent_box.launch.choose import choose_launcher
from rpent_box.launch.place import WorkerPlace
from rpent_box.launch.program import Launcher, Program
from rpent_box.launch.simulator import simulator_output_dir
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts
from rpent_box.sim.planning import require_suite
from rpent_box.sim.record import RunRecord, Started
from rpent_box.sim.results import episode_folder_name

__all__ = ["RunConfig", "RunSummary", "RunWatcher", "SilentWatcher", "run_episodes"]


def run_episodes(config: RunConfig, watcher: RunWatcher) -> RunSummary:
    """Play `config.episodes` episodes and return what came of them.

    Raises an `RpentBoxError`: a `UsageError` or `OutputError` before anything is started; anything
    else with the finished episodes already on the disk. Whatever is raised, nothing that was
    started is left running, and a borrowed worker is left as it was.
    """
    began = time.monotonic()
    checked = check(config)
    launcher, why = choose_launcher(checked.launcher)
    watcher.on_launcher(launcher.name, why)
    require_worker(config, checked, launcher, [checked.suite])
    recipes = gather(config, checked, launcher, watcher)
    # Last, because gigabytes are hashed.
    checkpoint = _inspect(config, checked, watcher)
    started = Started(launcher=launcher.name, why=why, command=config.command)
    with RunRecord(config.output_dir, checked.plan, started) as record:
        record.note(checkpoint=checkpoint)
        try:
            return _Run(config, checked, launcher, recipes, record, watcher, began).play(why)
        except RpentBoxError as error:
            _say_what_is_kept(error, record)
            raise


class _Run(Struct, frozen=True):
    """What the parts of one run share."""

    config: RunConfig
    checked: Checked
    launcher: Launcher
    recipes: Recipes
    record: RunRecord
    watcher: RunWatcher
    began: float

    def play(self, why: str) -> RunSummary:
        """Start, connect, play everything, stop."""
        with Box.create(self.config.runtime_dir) as box:
            place = self._place(box)
            simulator = self.recipes.simulator_program(box, self.record.run_dir, place)
            programs = self._start(box, simulator)
            with self._seat(programs, simulator, place, box.paths.sim_endpoint(0)) as seat:
                ready = self._wait_ready(programs, place, seat)
                connected = self._connect(ready, seat)
                start_s = time.monotonic() - self.began
                self._play_all(seat)
                seat.client.shut_down()
        self.record.complete()
        return self._summary(connected, why, start_s)

    def _place(self, box: Box) -> WorkerPlace:
        if self.config.endpoint is None:
            return box.worker_place
        return Box.join(self.config.endpoint)

    def _start(self, box: Box, simulator: Program) -> Programs:
        worker = self.recipes.worker_program(box, self.record.run_dir)
        programs = Programs(self.launcher, box)
        programs.start(worker, simulator)
        started = [simulator] if worker is None else [worker, simulator]
        self.record.note(images=image_ids(self.launcher, started))
        return programs

    def _seat(
        self, programs: Programs, simulator: Program, place: WorkerPlace, endpoint: str
    ) -> SimulatorSeat:
        wanted = ConnectWorker(
            endpoint=place.endpoint_for(self.launcher.view),
            box=place.box,
            fitting=self.checked.fitting,
            prediction_timeout_s=self.config.prediction_timeout_s,
        )
        patience = Patience(
            start_s=self.config.start_timeout_s,
            episode_s=self.config.episode_timeout_s,
            stall_s=self.config.stall_timeout_s,
        )
        return SimulatorSeat(
            programs, simulator, endpoint=endpoint, connect=wanted, patience=patience
        )

    def _wait_ready(self, programs: Programs, place: WorkerPlace, seat: SimulatorSeat) -> SimReady:
        ready = wait_both(
            programs,
            place,
            seat.client,
            checked=self.checked,
            config=self.config,
            watcher=self.watcher,
        )
        self.record.note(
            simulator=SimulatorFacts(
                meta=ready.platform, versions=ready.versions, renderer=ready.renderer
            )
        )
        return ready

    def _connect(self, ready: SimReady, seat: SimulatorSeat) -> WorkerConnected:
        connected = seat.connect(ready)
        self.record.note(
            worker=WorkerFacts(meta=connected.meta, rpent_box=connected.worker_version)
        )
        self._take_borrowed(connected)
        return connected

    def _take_borrowed(self, connected: WorkerConnected) -> None:
        """Note what a borrowed worker was started with. Raises `BadCheckpoint` for its suites."""
        files = connected.meta.checkpoint_files
        if self.config.endpoint is None or files is None:
            return
        self.record.note(checkpoint=files)
        require_suite(files, self.checked.suite)

    def _play_all(self, seat: SimulatorSeat) -> None:
        for episode in range(self.config.episodes):
            played = play_again_if_lost(
                seat,
                self._episode(episode),
                on_progress=partial(self.watcher.on_progress, episode),
                on_restart=self._note_restart,
            )
            self.record.add(played)
            self.watcher.on_episode(played)

    def _note_restart(self, episode: int, restart: Restart) -> None:
        self.record.count_restart()
        self.watcher.on_restart(episode, restart)

    def _episode(self, episode: int) -> PlayEpisode:
        self.record.episode_folder(episode)
        seen = simulator_output_dir(self.launcher, self.record.run_dir)
        return self.checked.plan.play(episode, f"{seen}/{episode_folder_name(episode)}")

    def _summary(self, connected: WorkerConnected, why: str, start_s: float) -> RunSummary:
        plan, record = self.checked.plan, self.record
        return RunSummary(
            run=record.name,
            run_dir=str(record.run_dir),
            backend=connected.meta.backend,
            platform=plan.platform,
            suite=plan.suite,
            task=plan.task,
            task_name=plan.task_name,
            instruction=record.rows[0].instruction,
            launcher=self.launcher.name,
            launcher_why=why,
            endpoint=plan.endpoint,
            seed=plan.seed,
            episodes=tuple(record.rows),
            start_s=start_s,
            total_s=time.monotonic() - self.began,
            model=connected.meta,
            videos=video_paths(record.run_dir, record.rows),
            **asdict(figures(record.rows)),
        )


def _inspect(config: RunConfig, checked: Checked, watcher: RunWatcher) -> CheckpointManifest | None:
    """Return which files will decide the actions. Raises `BadCheckpoint`."""
    if checked.spec is None:
        return None
    manifest = checkpoint_of_run(
        checked.spec,
        config.backend_arguments,
        config.checkpoint,
        checked.plan.platform,
        checked.suite,
        say=partial(watcher.on_phase, "checkpoint"),
        cache=None if config.cache_dir is None else Path(config.cache_dir),
    )
    if manifest is not None:
        watcher.on_phase("checkpoint", "ready")
    return manifest


def _say_what_is_kept(error: RpentBoxError, record: RunRecord) -> None:
    """Add to the error where the run's files are, and that finished episodes are among them."""
    played = len(record.rows)
    kept = f"{played} finished episode{'s' if played != 1 else ''}, " if played else ""
    where = f"Kept: {kept}logs and run.json in {record.run_dir}"
    error.hint = f"{error.hint}\n{where}" if error.hint else where
