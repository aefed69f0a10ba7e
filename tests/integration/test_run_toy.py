# SPDX-License-Identifier: Apache-2.0
"""Whole runs of the toy with the process launcher: real programs, real sockets, real memory."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rpent_box_toy.backend import BACKEND, EXECUTE_STEPS
from rpent_box_toy.running import (
    Recorder,
    boxes_in,
    leftovers,
    register_toy,
    short_folder,
    toy_config,
)

from rpent_box.errors import (
    BadActions,
    DeadlineExceeded,
    IncompatibleWorker,
    LaunchError,
    OutputError,
    PeerGone,
    PredictionFailed,
    SimulatorError,
    StartTimeout,
    WorkerFailed,
)
from rpent_box.evaluate.run import SilentWatcher, run_episodes
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.standalone import standalone_worker
from rpent_box.sim.manifest import read_manifest
from rpent_box.sim.results import read_results
from rpent_box.worker.needs import Needs


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


def only_run(folder):
    (run_dir,) = (folder / "runs").iterdir()
    return run_dir


def applied(path):
    """Return how many rows each `apply` got."""
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_a_run_plays_every_episode_and_writes_everything_down(folder):
    recorder = Recorder()
    summary = run_episodes(toy_config(folder, episodes=3, first_init_state=1), recorder)

    assert [row.init_state for row in summary.episodes] == [1, 2, 3]
    assert (summary.successes, summary.success_rate) == (3, 1.0)
    assert summary.steps == sum(row.steps for row in summary.episodes)
    assert summary.instruction == "go to the goal"
    assert summary.launcher == "process"
    assert sum(summary.stages_s.values()) == pytest.approx(summary.acting_s, rel=0.05)
    assert json.loads(msgspec.json.encode(summary))["backend"] == "toy"

    run_dir = Path(summary.run_dir)
    assert read_results(run_dir) == list(summary.episodes)
    for row in summary.episodes:
        actions = np.load(run_dir / f"episode-{row.episode:03d}" / "actions.npy")
        assert actions.shape == (row.steps, 2)
    manifest = read_manifest(run_dir)
    assert manifest.status == "complete"
    assert manifest.simulator.renderer == "numpy"
    assert manifest.worker.meta.provenance == {
        "revision": "toy-1",
        "worker_device": "cpu",
        "worker_threads": "1",
    }
    assert manifest.worker.rpent_box == manifest.host.rpent_box
    assert "ready" in (run_dir / "worker.log").read_text()
    assert "solved" in (run_dir / "simulator.log").read_text()

    assert recorder.launcher == ("process", "asked for")
    assert ("worker", "ready") in recorder.phases
    assert ("simulator", "ready") in recorder.phases
    assert [played.episode for played in recorder.episodes] == [0, 1, 2]
    assert boxes_in(folder) == []


def test_an_episode_that_is_not_solved_is_a_result_and_no_error(folder):
    summary = run_episodes(toy_config(folder, suite="toy_hard", episodes=1), SilentWatcher())
    assert (summary.successes, summary.steps) == (0, 25)
    assert summary.mean_success_steps is None
    assert summary.success_interval[1] < 1
    assert read_manifest(Path(summary.run_dir)).status == "complete"


def test_two_runs_with_one_seed_are_identical_and_a_third_with_another_is_not(folder):
    options = {"backend_arguments": ("--noise", "0.3")}
    first = run_episodes(toy_config(folder, **options), SilentWatcher())
    second = run_episodes(toy_config(folder, **options), SilentWatcher())
    other = run_episodes(toy_config(folder, seed=8, **options), SilentWatcher())

    def prints(summary):
        return [(row.actions_sha256, row.first_frames_sha256) for row in summary.episodes]

    assert prints(first) == prints(second)
    assert not set(prints(first)) & set(prints(other))


def test_an_init_state_gives_the_same_episode_whatever_was_played_before(folder):
    options = {"backend_arguments": ("--noise", "0.3")}
    both = run_episodes(toy_config(folder, episodes=3, **options), SilentWatcher())
    alone = run_episodes(
        toy_config(folder, episodes=1, first_init_state=2, **options), SilentWatcher()
    )
    assert alone.episodes[0].actions_sha256 == both.episodes[2].actions_sha256


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("control", "toy.other.v1"),
        ("cameras", "head"),
        ("proprio", "position has 2 numbers, the model wants 3"),
        ("chunk", "execute_steps is 7"),
    ],
)
def test_a_worker_that_does_not_fit_is_refused_before_any_step(folder, kind, reason):
    log = folder / "applied"
    config = toy_config(
        folder,
        backend_arguments=("--mismatch", kind),
        platform_arguments=(f"--applied-log={log}",),
    )
    with pytest.raises((IncompatibleWorker, WorkerFailed), match=reason) as caught:
        run_episodes(config, SilentWatcher())
    if isinstance(caught.value, IncompatibleWorker):
        assert "Backends that fit toy: toy" in caught.value.hint
    assert applied(log) == []
    assert read_results(only_run(folder)) == []
    assert read_manifest(only_run(folder)).status == "failed"
    assert boxes_in(folder) == []


@pytest.mark.parametrize(
    ("misbehave", "said"),
    [("nan", "nan"), ("shape", "shape"), ("length", "3 steps|shape")],
)
def test_a_bad_chunk_is_refused_before_it_is_executed(folder, misbehave, said):
    log = folder / "applied"
    config = toy_config(
        folder,
        backend_arguments=("--misbehave", misbehave, "--at-chunk", "1"),
        platform_arguments=(f"--applied-log={log}",),
    )
    with pytest.raises(BadActions, match=said):
        run_episodes(config, SilentWatcher())
    assert applied(log) == [EXECUTE_STEPS]


def test_what_the_model_raises_arrives_with_its_traceback(folder):
    config = toy_config(folder, backend_arguments=("--misbehave", "raise", "--at-init-state", "1"))
    with pytest.raises(PredictionFailed, match="the toy model raised") as caught:
        run_episodes(config, SilentWatcher())
    assert "_spoil" in caught.value.detail
    assert str(only_run(folder)) in caught.value.hint
    assert "1 finished episode," in caught.value.hint
    assert [row.init_state for row in read_results(only_run(folder))] == [0]


def test_weights_that_cannot_be_loaded_end_the_run_with_the_traceback(folder):
    config = toy_config(folder, backend_arguments=("--misbehave", "load"))
    with pytest.raises(WorkerFailed, match="the toy weights are torn") as caught:
        run_episodes(config, SilentWatcher())
    assert "Traceback" in caught.value.detail
    assert boxes_in(folder) == []


def test_a_simulator_that_cannot_be_opened_ends_the_run_with_the_traceback(folder):
    config = toy_config(folder, platform_arguments=("--breaks", "open"))
    with pytest.raises(SimulatorError, match="the toy broke at open") as caught:
        run_episodes(config, SilentWatcher())
    assert "Traceback" in caught.value.detail
    assert boxes_in(folder) == []


def test_a_prediction_that_never_comes_is_given_up_in_time(folder):
    log = folder / "applied"
    config = toy_config(
        folder,
        backend_arguments=("--misbehave", "hang"),
        platform_arguments=(f"--applied-log={log}",),
        prediction_timeout_s=1.0,
    )
    with pytest.raises(DeadlineExceeded):
        run_episodes(config, SilentWatcher())
    assert applied(log) == []
    assert boxes_in(folder) == []


def test_a_model_that_is_never_ready_is_given_up_in_its_phase(folder):
    config = toy_config(folder, backend_arguments=("--load-delay-s", "3600"), start_timeout_s=15.0)
    recorder = Recorder()
    with pytest.raises(StartTimeout, match="it stood at: loading"):
        run_episodes(config, recorder)
    assert ("worker", "loading: reading toy weights") in recorder.phases
    assert boxes_in(folder) == []


def test_an_interrupt_stops_everything_and_keeps_what_was_played(folder):
    boxes = []

    def interrupt(episode, progress):
        if episode == 1 and progress.steps:
            boxes.extend(boxes_in(folder))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_episodes(toy_config(folder), Recorder(interrupt))
    assert leftovers(folder, *boxes) == []
    assert read_manifest(only_run(folder)).error == "stopped by SIGINT"
    assert [row.init_state for row in read_results(only_run(folder))] == [0]


def test_an_output_folder_that_cannot_be_made_starts_nothing(folder):
    (folder / "runs").write_text("a file")
    with pytest.raises(OutputError, match="runs"):
        run_episodes(toy_config(folder), SilentWatcher())
    assert not (folder / "boxes").exists()


def test_a_python_that_is_not_there_starts_nothing(folder):
    with pytest.raises(LaunchError, match="/nowhere/python"):
        run_episodes(toy_config(folder, platform_python="/nowhere/python"), SilentWatcher())
    assert boxes_in(folder) == []
    assert not (only_run(folder) / "worker.log").exists()


@contextmanager
def serving(folder, **changes):
    """A worker of the toy in a box of its own."""
    settings = {
        "needs": Needs(device="cpu"),
        "checkpoint": None,
        "platform": "toy",
        "options": ("--noise", "0.3"),
        "python": sys.executable,
        "root": None,
        "cuda_device": None,
        "threads": 1,
        "log": str(folder / "worker.log"),
        "image": "",
        "start_timeout_s": 120,
        "say": lambda phase: None,
        "runtime_dir": folder / "boxes",
        **changes,
    }
    with standalone_worker(BACKEND, ProcessLauncher(), **settings) as worker:
        yield worker


def borrowing(folder, worker, **changes):
    return toy_config(folder, endpoint=worker.endpoint, python=None, episodes=1, **changes)


def test_a_borrowed_worker_serves_run_after_run_and_is_left_running(folder):
    with serving(folder) as worker:
        named = run_episodes(borrowing(folder, worker), SilentWatcher())
        unnamed = run_episodes(borrowing(folder, worker, backend=None), SilentWatcher())
        with pytest.raises(IncompatibleWorker, match="serves toy, not mini-wam"):
            run_episodes(borrowing(folder, worker, backend="mini-wam"), SilentWatcher())
        worker.watch()
        assert len(boxes_in(folder)) == 1
    assert named.endpoint == unnamed.endpoint == worker.endpoint
    assert unnamed.backend == "toy"
    assert named.episodes[0].actions_sha256 == unnamed.episodes[0].actions_sha256
    assert not (Path(named.run_dir) / "worker.log").exists()
    assert boxes_in(folder) == []


def test_a_worker_over_tcp_gives_the_same_episode(folder):
    with serving(folder) as worker:
        local = run_episodes(borrowing(folder, worker), SilentWatcher())
    with serving(folder, listen="tcp://127.0.0.1:0") as worker:
        assert worker.endpoint.startswith("tcp://127.0.0.1:")
        remote = run_episodes(borrowing(folder, worker), SilentWatcher())
    assert remote.episodes[0].actions_sha256 == local.episodes[0].actions_sha256


def test_a_borrowed_worker_that_ends_is_an_error_that_names_its_endpoint(folder):
    die = ("--misbehave", "die", "--at-chunk", "1")
    with (
        serving(folder, options=die) as worker,
        pytest.raises(PeerGone, match="has ended") as caught,
    ):
        run_episodes(borrowing(folder, worker), SilentWatcher())
    assert worker.endpoint in caught.value.message
    assert boxes_in(folder) == []
