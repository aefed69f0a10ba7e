# SPDX-License-Identifier: Apache-2.0
"""Play episodes without a host: `python -m rpent_box.sim.play PLATFORM --endpoint … --output …`.

For a pair that something else has started, such as compose. Waits for the worker, writes the same
files as `rpent-box run`, and prints one line per episode. Exit code 0 when every episode was
played, 1 when not, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence

from rpent_box.contracts.control_messages import ConnectWorker, EpisodePlayed, Progress
from rpent_box.contracts.fit import require_fit
from rpent_box.errors import (
    DeadlineExceeded,
    PeerGone,
    RpentBoxError,
    StartTimeout,
    UsageError,
    WorkerNotReady,
)
from rpent_box.options import OptionParser, options_from
from rpent_box.plugins import fitting_backends
from rpent_box.sim.connecting import WorkerConnector
from rpent_box.sim.episode import play_episode
from rpent_box.sim.manifest import Plan, SimulatorFacts, WorkerFacts
from rpent_box.sim.planning import (
    check_episodes,
    check_seed,
    check_shown,
    find_suite,
    find_task,
    read_task,
    require_assets,
    require_suite,
    step_limit,
)
from rpent_box.sim.platform import Platform, PlatformPlugin, Suite, model_needs
from rpent_box.sim.record import RunRecord, Started
from rpent_box.sim.serve import add_platform, set_environment
from rpent_box.sim.server import ConnectedPolicy

PROGRAM = "python -m rpent_box.sim.play"
ASK_AGAIN_S = 0.5


def main(words: Sequence[str] | None = None) -> int:
    """Play what the command line asks for. Return the exit code."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s"
    )
    signal.signal(signal.SIGTERM, _stop)
    try:
        _play(list(sys.argv[1:] if words is None else words))
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except RpentBoxError as error:
        sys.stderr.write(f"error: {error}\n{error.detail}".rstrip() + "\n")
        return 1
    return 0


def wait_for_worker(connect: Callable[[], ConnectedPolicy], *, timeout_s: float) -> ConnectedPolicy:
    """Connect as soon as a worker answers and its model is ready.

    Raises `StartTimeout` with the last reason, and at once whatever waiting cannot cure.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return connect()
        except (PeerGone, DeadlineExceeded, StartTimeout, WorkerNotReady) as error:
            if time.monotonic() >= deadline:
                raise StartTimeout(
                    f"no worker was ready within {timeout_s:.0f} s: {error.message}",
                    hint="Read the worker's log, or allow more: --start-timeout.",
                ) from error
            time.sleep(ASK_AGAIN_S)


def _play(words: list[str]) -> None:
    parser = _parser()
    plugin = add_platform(parser, words)
    if plugin is None or "--help" in words or "-h" in words:
        parser.print_help()
        return
    known = parser.parse_args(words)
    options = options_from(plugin.options, vars(known))
    suite = find_suite(plugin, known.suite)
    plan = _plan(plugin, suite, known)
    require_assets(plugin, options, plan.scenes())
    set_environment(plugin, threads=None)
    started = Started(launcher=known.launcher, command=(PROGRAM, *words))
    connector = WorkerConnector(view=known.view)
    wanted = ConnectWorker(
        endpoint=known.endpoint, box=known.box, prediction_timeout_s=known.prediction_timeout
    )
    with RunRecord(known.output, plan, started) as record:
        platform = plugin.open(options)
        try:
            policy = wait_for_worker(
                lambda: connector.connect(wanted, platform.meta), timeout_s=known.start_timeout
            )
            try:
                _play_all(platform, policy, record, plan, suite)
            finally:
                policy.close()
        finally:
            platform.close()


def _play_all(
    platform: Platform, policy: ConnectedPolicy, record: RunRecord, plan: Plan, suite: Suite
) -> None:
    files = policy.meta.checkpoint_files
    if files is not None:
        record.note(checkpoint=files)
        require_suite(files, suite)
    spaces = {control.action_space for control in platform.meta.controls}
    require_fit(policy.meta, platform.meta, fitting=fitting_backends(spaces))
    platform.prepare(model_needs(policy.meta))
    record.note(
        simulator=SimulatorFacts(
            meta=platform.meta, versions=platform.versions, renderer=platform.renderer
        ),
        worker=WorkerFacts(meta=policy.meta, rpent_box=policy.welcome.version),
    )
    for episode in range(plan.episodes):
        folder = record.episode_folder(episode)
        played = play_episode(platform, policy, plan.play(episode, str(folder)), _ignore)
        record.add(played)
        sys.stdout.write(_line(played) + "\n")
        sys.stdout.flush()
    record.complete()
    solved = sum(row.success for row in record.rows)
    sys.stdout.write(f"{solved} of {plan.episodes} solved; results: {record.run_dir}\n")


def _plan(plugin: PlatformPlugin, suite: Suite, known: argparse.Namespace) -> Plan:
    task = find_task(suite, known.task)
    check_shown(known.video, show_predictions=known.show_predictions)
    first = check_episodes(suite, first_init_state=known.first_init_state, episodes=known.episodes)
    return Plan(
        platform=plugin.name,
        suite=suite.name,
        task=task,
        task_name=suite.tasks[task],
        episodes=known.episodes,
        first_init_state=first,
        seed=check_seed(known.seed),
        max_steps=step_limit(suite, task, known.max_steps),
        execute_steps=known.execute_steps,
        video=known.video,
        show_predictions=known.show_predictions,
        endpoint=known.endpoint,
        prediction_timeout_s=known.prediction_timeout,
    )


def _line(played: EpisodePlayed) -> str:
    outcome = "solved" if played.success else "not solved"
    return (
        f"episode {played.episode}, init state {played.init_state}: {outcome} after "
        f"{played.steps} steps in {played.wall_s:.1f} s"
    )


def _ignore(_progress: Progress) -> None:
    """Nobody watches."""


def _stop(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(1)


def _parser() -> OptionParser:
    parser = OptionParser(prog=PROGRAM, description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("platform", metavar="PLATFORM")
    add("--endpoint", required=True, help="where the worker listens")
    add("--output", required=True, help="folder that gets the run's folder")
    add("--suite", help="default: the platform's own")
    add("--task", type=read_task, default=0, help="its index or its name")
    add("--episodes", type=int, default=1)
    add(
        "--first-init-state",
        "--scene-seed",
        type=int,
        help="of the first episode; a scene's seed where they are numbered so; default: the first",
    )
    add("--seed", type=int, default=7, help="of the simulator and of the model's noise")
    add("--max-steps", type=int, help="default: the task's own limit")
    add("--execute-steps", type=int, help="default: all rows of a chunk")
    add("--video", choices=("all", "failures", "none"), default="none")
    add("--show-predictions", action="store_true", help="draw what the model expected into videos")
    add("--box", help="share memory with the worker through this box; default: raw frames")
    add("--view", choices=("host", "container"), default="container")
    add("--launcher", default="compose", help="what started this, for run.json")
    add("--start-timeout", type=float, default=600.0, help="seconds to wait for the worker")
    add("--prediction-timeout", type=float, help="seconds; default: what the model says")
    return parser


if __name__ == "__main__":
    sys.exit(main())
