# SPDX-License-Identifier: Apache-2.0
"""kill -9 with containers: the same promises as with processes, kept by engine and reaper."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest
from rpent_box_toy.running import Recorder, boxes_in, leftovers, register_toy, short_folder

from rpent_box.errors import EngineMissing, LaunchError, ProgramDied
from rpent_box.evaluate.run import RunConfig, run_episodes
from rpent_box.launch.images import image_state
from rpent_box.launch.records import read_records
from rpent_box.sim.manifest import read_manifest
from rpent_box.sim.results import read_results

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

GONE_WITHIN_S = 20.0


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture(scope="module")
def engine():
    from rpent_box.launch.engine import Engine

    try:
        made = Engine.connect()
    except (EngineMissing, LaunchError) as error:
        pytest.skip(f"needs a Docker engine: {error.message}")
    for kind, name in (("backend", "mini-wam"), ("platform", "libero")):
        if image_state(made, kind, name) == "missing":
            pytest.skip(f"needs the image of {name}: rpent-box build {name}")
    return made


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


def config(folder):
    return RunConfig(
        backend="mini-wam",
        platform="libero",
        suite="libero_spatial",
        episodes=2,
        video="none",
        launcher="docker",
        output_dir=str(folder / "runs"),
        runtime_dir=str(folder / "boxes"),
    )


def only_run(folder):
    (run_dir,) = (folder / "runs").iterdir()
    return run_dir


def containers(engine, box):
    # Between the listing and the look at each, one may have gone.
    found = engine.client.containers.list(
        all=True, ignore_removed=True, filters={"label": f"rpent-box.box={box}"}
    )
    return [f"container {one.name}" for one in found]


def wait_until_clean(engine, folder, box):
    deadline = time.monotonic() + GONE_WITHIN_S
    while True:
        left = leftovers(folder, box) + containers(engine, box)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.2)


# A simulator is replaced, and its episode begun again, twice: as when it hangs.
@pytest.mark.parametrize(("role", "kills"), [("worker", 1), ("simulator", 3)])
def test_a_container_killed_in_an_episode_is_named_and_nothing_is_lost_or_left(
    engine, folder, role, kills
):
    boxes = []
    killed = set()

    def kill(episode, progress):
        if episode == 1 and progress.steps:
            boxes[:] = boxes_in(folder)
            records = read_records(folder / "boxes" / boxes[0] / "programs.json")
            last = [one.identifier for one in records.programs if one.name.startswith(role)][-1]
            if last not in killed:
                killed.add(last)
                engine.client.containers.get(last).kill(signal="SIGKILL")

    with pytest.raises(ProgramDied, match=rf"{role} .* \(container \w+\) has ended") as caught:
        run_episodes(config(folder), Recorder(kill))
    assert "SIGKILL" in caught.value.message
    assert "ready" in caught.value.detail
    assert len(killed) == kills
    run_dir = only_run(folder)
    assert [row.init_state for row in read_results(run_dir)] == [0]
    assert read_manifest(run_dir).status == "failed"
    assert wait_until_clean(engine, folder, boxes[0]) == []


def test_a_killed_host_leaves_its_results_and_no_container(engine, folder):
    host = subprocess.Popen(
        [sys.executable, "-m", "rpent_box_toy.drive", msgspec.json.encode(config(folder))],
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
        assert len(containers(engine, box)) == 2
        os.kill(host.pid, signal.SIGKILL)
        host.wait(20)
        assert wait_until_clean(engine, folder, box) == []
    finally:
        host.kill()
        host.wait(20)
        host.stdout.close()
    assert [row.init_state for row in read_results(only_run(folder))] == [0]
    assert read_manifest(only_run(folder)).status == "running"


def test_a_whole_run_leaves_its_files_to_the_caller_and_names_its_images(engine, folder):
    summary = run_episodes(config(folder), Recorder())
    run_dir = only_run(folder)
    assert len(summary.episodes) == 2
    manifest = read_manifest(run_dir)
    assert set(manifest.images) == {"worker", "simulator"}
    for image in manifest.images.values():
        name, _, digest = image.partition(" ")
        assert name.startswith("rpent-box/")
        assert digest.startswith("sha256:")
    assert manifest.simulator.versions["mujoco"]
    for path in run_dir.rglob("*"):
        assert (path.stat().st_uid, path.stat().st_gid) == (os.getuid(), os.getgid())
    assert boxes_in(folder) == []
