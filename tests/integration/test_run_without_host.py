# SPDX-License-Identifier: Apache-2.0
"""The simulator's own programs beside a real worker: `sim.play` as compose starts it, `sim.serve`
as a launcher does."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from bare_box import make_bare_box, remove_bare_box
from rpent_box_toy.running import register_toy, short_folder

from rpent_box.contracts.control_messages import ConnectWorker, PlayEpisode
from rpent_box.sim.client import SimClient
from rpent_box.sim.guard import ABANDONED
from rpent_box.sim.manifest import read_manifest
from rpent_box.sim.results import read_results
from rpent_box.transport.lease import Lease
from rpent_box.transport.paths import SHM

BOX = f"{os.getpid():08x}"
END_S = 120.0


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


@contextmanager
def started(module, *words, log):
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


def worker(endpoint, *words, log):
    words = ("toy", "--platform", "toy", "--endpoint", endpoint, *words)
    return started("rpent_box.worker.serve", *words, log=log)


def play(folder, *words):
    words = ("toy", "--endpoint", f"ipc://{folder}/worker.sock", "--output", folder / "out", *words)
    return started("rpent_box.sim.play", *map(str, words), log=folder / "play.log")


def only_run(folder):
    (run_dir,) = (folder / "out").iterdir()
    return run_dir


def test_it_waits_for_the_worker_then_plays_and_writes_what_a_run_writes(folder):
    with play(folder, "--episodes", "3", "--first-init-state", "1") as player:
        time.sleep(1.0)
        assert player.poll() is None
        with worker(
            f"ipc://{folder}/worker.sock", "--load-delay-s", "1", log=folder / "worker.log"
        ):
            assert player.wait(END_S) == 0
    said = (folder / "play.log").read_text()
    assert "episode 0, init state 1: solved after" in said
    assert "3 of 3 solved" in said
    rows = read_results(only_run(folder))
    assert [row.init_state for row in rows] == [1, 2, 3]
    manifest = read_manifest(only_run(folder))
    assert (manifest.status, manifest.launcher) == ("complete", "compose")
    assert manifest.worker.meta.backend == "toy"
    assert manifest.simulator.renderer == "numpy"
    assert (only_run(folder) / "episode-002" / "actions.npy").exists()


def test_a_worker_that_never_comes_is_an_error_with_exit_code_1(folder):
    with play(folder, "--start-timeout", "1") as player:
        assert player.wait(END_S) == 1
    assert "no worker was ready within 1 s" in (folder / "play.log").read_text()


def test_a_worker_that_dies_ends_it_and_keeps_what_was_played(folder):
    die = ("--misbehave", "die", "--at-init-state", "1", "--at-chunk", "1")
    with (
        worker(f"ipc://{folder}/worker.sock", *die, log=folder / "worker.log"),
        play(folder, "--episodes", "2") as player,
    ):
        assert player.wait(END_S) == 1
    assert "has ended" in (folder / "play.log").read_text()
    assert [row.init_state for row in read_results(only_run(folder))] == [0]
    assert read_manifest(only_run(folder)).status == "failed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suite", "nowhere"), "no suite called nowhere"),
        (("--episodes", "99"), "6 init states"),
        (("--step-delay-s", "slow"), "cannot be used"),
        (("--colour", "red"), "--colour"),
    ],
)
def test_wrong_usage_is_exit_code_2(folder, words, said):
    with play(folder, *words) as player:
        assert player.wait(END_S) == 2
    assert said in (folder / "play.log").read_text()
    assert not (folder / "out").exists()


class Box:
    """A box made by hand: no reaper, so that what ends a simulator is the simulator."""

    def __init__(self, folder):
        self.folder = folder
        self.paths = make_bare_box(folder, BOX)
        self.lease = Lease.hold(self.paths.lease)

    def segments(self):
        return [*SHM.glob(f"rpent-box.{BOX}.*"), *self.paths.grants.iterdir()]

    def remove(self):
        self.lease.close()
        remove_bare_box(self.paths)


@pytest.fixture
def box(folder):
    made = Box(folder)
    yield made
    made.remove()


@contextmanager
def acting_simulator(box):
    """Yield a simulator that stands inside a step that takes an hour, its ring in use."""
    paths = box.paths
    words = ("toy", "--endpoint", paths.sim_endpoint(0), "--box", BOX, "--lease", str(paths.lease))
    slow = ("--step-delay-s", "3600")
    own = ("--box", BOX, "--lease", str(paths.lease))
    with (
        worker(paths.worker_endpoint, *own, log=box.folder / "worker.log"),
        started("rpent_box.sim.serve", *words, *slow, log=box.folder / "sim.log") as simulator,
        SimClient(paths.sim_endpoint(0), watch=lambda: None) as client,
    ):
        client.wait_ready(timeout_s=END_S)
        _connect(client, paths)
        client._send(_episode(box.folder))
        deadline = time.monotonic() + END_S
        while not box.segments() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(box.segments()) == 2
        time.sleep(0.5)
        yield simulator


def _connect(client, paths):
    wait_for_socket(paths.worker_socket)
    client.connect_worker(ConnectWorker(endpoint=paths.worker_endpoint, box=BOX), timeout_s=END_S)


def wait_for_socket(path):
    deadline = time.monotonic() + END_S
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def _episode(folder):
    return PlayEpisode(
        suite="toy_easy",
        task=0,
        init_state=0,
        episode=0,
        seed=7,
        max_steps=4,
        output_dir=str(folder),
    )


def test_a_simulator_ends_with_its_owner_also_in_the_middle_of_a_step(box):
    with acting_simulator(box) as simulator:
        box.lease.close()
        assert simulator.wait(10) == ABANDONED
        assert box.segments() == []
        assert not box.paths.sim_socket(0).exists()


def test_a_simulator_that_is_told_to_end_removes_its_ring_and_its_socket(box):
    with acting_simulator(box) as simulator:
        simulator.send_signal(signal.SIGTERM)
        assert simulator.wait(10) == 0
        assert box.segments() == []
        assert not box.paths.sim_socket(0).exists()


def test_a_simulator_shows_the_platforms_own_options():
    done = subprocess.run(
        [sys.executable, "-m", "rpent_box.sim.serve", "toy", "--help"],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=True,
    )
    assert "toy's own options" in done.stdout
    assert "--step-delay-s" in done.stdout
