# SPDX-License-Identifier: Apache-2.0
"""Evaluations on a Ray cluster of several nodes, all of them on this machine."""

import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from ray_nodes import ray_nodes, wait_for
from rpent_box_toy.running import boxes_in, leftovers, register_toy, short_folder

from rpent_box.errors import ContractError, EnvironmentMissing, LaunchError, UsageError
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import resume_evaluation, run_evaluation
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.evaluate.scale.ray_place import RayPlace
from rpent_box.evaluate.scale.watcher import SilentEvalWatcher
from rpent_box.sim.results import read_results

# Not imported here: Ray must be told to be quiet before it is.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray: pip install 'rpent-box[ray]'"
)

DRIVER = Path(__file__).parents[1] / "support" / "ray" / "ray_driver.py"
SLOW = ("--step-delay-s", "0.05")
TIMES = ("wall_s", "setup_s", "stages_s", "video_s", "run", "finished_at", "simulator", "session")


@pytest.fixture(scope="module", autouse=True)
def toy():
    """Here, and in all that is started from here."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_toy(monkeypatch)
        yield


@pytest.fixture(scope="module")
def nodes(toy):
    with ray_nodes(2) as made:
        yield made


@pytest.fixture
def cluster(nodes):
    """Two nodes with room for one box each, also after a test that has lost some."""
    nodes.add(2 - len(nodes))
    return nodes


@pytest.fixture
def together(monkeypatch):
    """No box of two plays before the other one can, however long that takes to start."""
    fill, ready = RayPlace.fill, set()

    def fill_together(place, schedule):
        ready.update({place.name} if place.is_known else ())
        if len(ready) == 2:
            fill(place, schedule)

    monkeypatch.setattr(RayPlace, "fill", fill_together)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


def config(folder, **changes):
    settings = {
        "backend": "toy",
        "platform": "toy",
        "tasks": (0, 1),
        "episodes": 3,
        "seeds": (7, 8),
        "envs": 1,
        "launcher": "process",
        "python": sys.executable,
        "platform_python": sys.executable,
        "output_dir": str(folder / "runs"),
        "runtime_dir": str(folder / "boxes"),
        "backend_arguments": ("--noise", "0.2", "--future-side", "8"),
        "start_timeout_s": 120.0,
        "command": ("rpent-box", "eval"),
    }
    return EvalConfig(**{**settings, **changes})


def outcomes(run_dir):
    """Return episode → its row, without what differs from one sitting to another."""
    rows = read_results(Path(run_dir))
    found = {}
    for row in rows:
        fields = msgspec.structs.asdict(row)
        found[row.episode] = {name: fields[name] for name in fields if name not in TIMES}
    assert len(found) == len(rows) == len({key_of(row) for row in rows})
    return found


def wrong_files(run_dir):
    """Return the episodes whose files are not what their rows say."""
    run_dir = Path(run_dir)
    wrong = []
    for row in read_results(run_dir):
        folder = run_dir / f"episode-{row.episode:03d}"
        actions = np.load(folder / "actions.npy")
        same = hashlib.sha256(actions.astype("<f4").tobytes()).hexdigest() == row.actions_sha256
        frames = np.load(folder / row.futures)
        if not same or len(frames.files) == 0:
            wrong.append(row.episode)
    return wrong


def left_in(folder):
    """Return what is left of every box that was made under `folder`, once reapers are through."""
    wait_for(lambda: not boxes_in(folder), 20.0)
    return boxes_in(folder)


class Story(SilentEvalWatcher):
    """Remembers, and does something after so many results."""

    def __init__(self, acts=None):
        super().__init__()
        self.rows = []
        self.lost = []
        self.phases = []
        self.progress = 0
        self.launcher = None
        self._acts = acts or {}

    def on_launcher(self, name, why):
        self.launcher = (name, why)

    def on_phase(self, component, text):
        self.phases.append((component, text))

    def on_progress(self, simulator, job, progress):
        self.progress += 1

    def on_worker_lost(self, place, reason):
        self.lost.append((place, reason))

    def on_episode(self, row):
        self.rows.append(row)
        act = self._acts.get(len(self.rows))
        if act is not None:
            act()


@pytest.fixture(scope="module")
def undisturbed(toy):
    """What the evaluation of these tests comes to on this machine alone."""
    with short_folder() as folder:
        summary = run_evaluation(config(folder), SilentEvalWatcher())
        yield outcomes(summary.run_dir)


def test_a_cluster_comes_to_the_same_rows_as_one_machine(cluster, folder, undisturbed, together):
    story = Story()
    summary = run_evaluation(config(folder, ray=cluster.address), story)
    run_dir = Path(summary.run_dir)

    assert summary.status == "complete"
    assert outcomes(run_dir) == undisturbed
    assert wrong_files(run_dir) == []
    # Both machines have played, and say so.
    assert {row.simulator for row in read_results(run_dir)} == {"node-0/0", "node-1/0"}
    manifest = read_eval_manifest(run_dir)
    (session,) = manifest.sessions
    assert session.executor == "ray"
    assert {place.name for place in session.places} == {"node-0", "node-1"}
    assert all(place.worker is not None and place.worker.served for place in session.places)
    assert manifest.simulator.renderer == "numpy"
    assert ("node-1 worker", "ready") in story.phases
    for place in ("node-0", "node-1"):
        assert (run_dir / place / "worker.log").read_text()
    assert left_in(folder) == []


def test_a_killed_actor_and_a_lost_node_cost_no_episode_and_no_result(
    cluster, folder, undisturbed, together, monkeypatch
):
    monkeypatch.setattr("rpent_box.evaluate.scale.ray_place.AWAY_S", 3.0)
    # Of two nodes, one loses its actor, which Ray starts again there; later the other one is lost,
    # for whose box there is no room: its episode is for the one that is left.
    acts = {2: lambda: cluster.kill_actor(0), 5: lambda: cluster.lose(1)}
    story = Story(acts)
    summary = run_evaluation(config(folder, ray=cluster.address, platform_arguments=SLOW), story)
    assert summary.status == "complete"
    assert outcomes(summary.run_dir) == undisturbed
    assert wrong_files(summary.run_dir) == []
    assert story.progress > 0
    assert dict(story.lost).keys() == {"node-0", "node-1"}
    assert left_in(folder) == []


@pytest.mark.slow
def test_what_a_node_lacks_is_said_with_its_name(cluster, folder):
    lacking = config(folder, ray=cluster.address, platform_python="/nowhere/python")
    with pytest.raises(EnvironmentMissing, match=r"node-\d on \S+: .*/nowhere/python") as caught:
        run_evaluation(lacking, SilentEvalWatcher())
    assert "rpent-box build toy" in caught.value.hint
    assert left_in(folder) == []


@pytest.mark.slow
def test_nodes_that_play_with_something_else_are_refused(cluster, folder):
    first = run_evaluation(config(folder, episodes=1, seeds=(7,)), SilentEvalWatcher())
    run_dir = Path(first.run_dir)
    # As if begun with another renderer, and one episode were left.
    manifest = run_dir / "eval.json"
    manifest.write_text(manifest.read_text().replace('"renderer": "numpy"', '"renderer": "egl"'))
    rows = (run_dir / "results.jsonl").read_bytes().splitlines(keepends=True)
    (run_dir / "results.jsonl").write_bytes(b"".join(rows[:-1]))
    with pytest.raises(ContractError, match="renderer: egl → numpy"):
        resume_evaluation(
            run_dir,
            config(folder, episodes=1, seeds=(7,), ray=cluster.address),
            SilentEvalWatcher(),
        )
    assert len(read_results(run_dir)) == len(rows) - 1
    assert left_in(folder) == []


def test_a_cluster_that_is_not_there_is_said_at_once(folder):
    began = time.monotonic()
    with pytest.raises(LaunchError, match=r"Ray cannot be used at 127\.0\.0\.1:1") as caught:
        run_evaluation(config(folder, ray="127.0.0.1:1"), SilentEvalWatcher())
    assert "ray status" in caught.value.hint
    assert time.monotonic() - began < 30
    assert left_in(folder) == []


def test_gpus_are_rays_to_hand_out(folder):
    with pytest.raises(UsageError, match="--cuda-device"):
        run_evaluation(config(folder, ray="auto", cuda_device="0"), SilentEvalWatcher())


def drive_and_kill(begun, episodes):
    """Play `begun` in another process, kill that after some results; return what it said and the
    boxes that there were."""
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER), msgspec.json.encode(begun).decode()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        said = [driver.stdout.readline() for _ in range(episodes)]
        boxes = boxes_in(Path(begun.output_dir).parent)
        os.kill(driver.pid, signal.SIGKILL)
        said += driver.stdout.readlines()
    finally:
        driver.kill()
        driver.wait()
    return said, boxes


def check_a_killed_driver(folder, begun, then, undisturbed):
    said, boxes = drive_and_kill(begun, 3)
    # And nothing that Ray would say.
    assert {line.split()[0] for line in said} == {"episode"}, said
    assert boxes
    assert left_in(folder) == []
    assert [leftovers(folder, box) for box in boxes] == [[] for _ in boxes]

    (run_dir,) = (folder / "runs").iterdir()
    before = outcomes(run_dir)
    assert 3 <= len(before) < len(undisturbed)
    summary = resume_evaluation(run_dir, then, SilentEvalWatcher())
    assert summary.status == "complete"
    assert outcomes(run_dir) == undisturbed
    assert wrong_files(run_dir) == []
    assert left_in(folder) == []


def test_a_killed_driver_takes_its_own_cluster_along_and_this_machine_goes_on(folder, undisturbed):
    begun = config(folder, ray="auto", platform_arguments=SLOW)
    then = config(folder, envs=2, platform_arguments=SLOW)
    check_a_killed_driver(folder, begun, then, undisturbed)


STRANGER = """
import os, subprocess, sys
from rpent_box.evaluate.scale.ray_cluster import RayCluster
bare = dict(os.environ)
with RayCluster("auto", sys.argv[1]) as cluster:
    address = cluster.ray.get_runtime_context().gcs_address
    join = f"import ray; ray.init(address={address!r}); print('inside')"
    for environment in (bare, dict(os.environ)):
        run = subprocess.run([sys.executable, "-c", join], env=environment, capture_output=True)
        print(b"inside" in run.stdout)
"""


@pytest.mark.slow
def test_a_cluster_of_our_own_lets_nobody_in_without_its_token(folder):
    said = subprocess.run(
        [sys.executable, "-c", STRANGER, str(folder / "boxes")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.stdout.split() == ["False", "True"], said.stderr
    assert left_in(folder) == []


@pytest.mark.slow
def test_a_killed_driver_leaves_nothing_in_a_cluster_and_another_one_goes_on_there(
    cluster, folder, undisturbed
):
    begun = config(folder, ray=cluster.address, platform_arguments=SLOW)
    check_a_killed_driver(folder, begun, begun, undisturbed)
