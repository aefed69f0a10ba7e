# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each program of a run: what died is named, nothing is left, no result is lost."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest
from rpent_box_toy.running import (
    Recorder,
    boxes_in,
    kill_program,
    register_toy,
    short_folder,
    toy_config,
    wait_until_clean,
)

from rpent_box.errors import ProgramDied
from rpent_box.evaluate.run import run_episodes
from rpent_box.sim.manifest import read_manifest
from rpent_box.sim.results import read_results

SLOW_STEPS = ("--step-delay-s", "0.05")


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


class Killer:
    """Kills a program whenever the second episode acts; remembers the box."""

    def __init__(self, folder, role):
        self.boxes = []
        self.kills = 0
        self._folder = folder
        self._role = role
        self._armed = False

    def __call__(self, episode, progress):
        if progress.phase == "resetting":
            self._armed = True
        if episode == 1 and progress.steps and self._armed:
            self._armed = False
            self.kills += 1
            self.boxes = boxes_in(self._folder)
            kill_program(self._folder, self._role)


def only_run(folder):
    (run_dir,) = (folder / "runs").iterdir()
    return run_dir


@pytest.mark.parametrize(
    ("role", "kills", "log"),
    # A simulator is replaced, and its episode begun again, twice: as when it hangs.
    [("worker", 1, "worker.log"), ("simulator", 3, "simulator.2.log")],
)
def test_a_program_killed_in_an_episode_is_named_and_nothing_is_lost_or_left(
    folder, role, kills, log
):
    killer = Killer(folder, role)
    config = toy_config(folder, platform_arguments=SLOW_STEPS)
    with pytest.raises(ProgramDied, match=rf"{role} toy \(process \d+\) has ended") as caught:
        run_episodes(config, Recorder(killer))
    (box,) = killer.boxes
    run_dir = only_run(folder)
    assert "SIGKILL" in caught.value.message
    assert "ready" in caught.value.detail
    assert str(run_dir / log) in caught.value.hint
    assert killer.kills == kills
    assert [row.init_state for row in read_results(run_dir)] == [0]
    manifest = read_manifest(run_dir)
    assert (manifest.status, manifest.episodes_played) == ("failed", 1)
    assert f"{role} toy" in manifest.error
    assert wait_until_clean(folder, box) == []


def test_a_worker_that_dies_inside_its_model_is_named(folder):
    config = toy_config(folder, backend_arguments=("--misbehave", "die", "--at-chunk", "1"))
    with pytest.raises(ProgramDied, match=r"worker toy .* has ended: killed by SIGKILL"):
        run_episodes(config, Recorder())
    assert boxes_in(folder) == []


@pytest.mark.parametrize(
    ("role", "slow"),
    [
        ("worker", {"backend_arguments": ("--load-delay-s", "3600")}),
        ("simulator", {"platform_arguments": ("--open-delay-s", "3600")}),
    ],
)
def test_a_program_killed_while_it_starts_is_named_at_once(folder, role, slow):
    phases = {"worker": "loading: reading toy weights", "simulator": "importing the simulator"}
    killed_at = []

    class KillsAtPhase(Recorder):
        def on_phase(self, component, text):
            if (component, text) == (role, phases[role]):
                kill_program(folder, role)
                killed_at.append(time.monotonic())

    with pytest.raises(ProgramDied, match=rf"{role} toy \(process \d+\) has ended"):
        run_episodes(toy_config(folder, start_timeout_s=600, **slow), KillsAtPhase())
    assert time.monotonic() - killed_at[0] < 60
    assert boxes_in(folder) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_killed_host_leaves_its_results_and_nothing_else(folder, number):
    config = toy_config(folder, suite="toy_hard", platform_arguments=SLOW_STEPS)
    host = subprocess.Popen(
        [sys.executable, "-m", "rpent_box_toy.drive", msgspec.json.encode(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        for line in host.stdout:
            if line.startswith("progress 1 ") and not line.endswith(" 0\n"):
                break
        else:
            pytest.fail("the host ended before its second episode")
        (box,) = boxes_in(folder)
        os.kill(host.pid, number)
        host.wait(20)
        assert wait_until_clean(folder, box) == []
    finally:
        host.kill()
        host.wait(20)
        host.stdout.close()
    run_dir = only_run(folder)
    assert [row.init_state for row in read_results(run_dir)] == [0]
    manifest = read_manifest(run_dir)
    assert (manifest.status, manifest.episodes_played) == ("running", 1)
