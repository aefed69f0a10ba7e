# SPDX-License-Identifier: Apache-2.0
"""An assignment on its machine: what it is played with there, and by which paths."""

import os
import threading

import pytest
from ray_parts import KNOWN, TWO
from rpent_box_toy.running import register_toy

from rpent_box.contracts.checkpoint import CheckpointManifest
from rpent_box.errors import BadOption
from rpent_box.evaluate.scale import ray_crew
from rpent_box.evaluate.scale.checking import check_evaluation
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.events import Phase
from rpent_box.evaluate.scale.ray_jobs import GivenJobs
from rpent_box.evaluate.scale.ray_messages import Assignment
from rpent_box.evaluate.scale.ray_paths import config_for_others


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


def config(**changes):
    settings = {"backend": "toy", "platform": "toy", "launcher": "process", "episodes": 1}
    return EvalConfig(**settings, **changes)


def test_paths_are_made_absolute_and_the_drivers_own_affairs_stay_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "pictures.txt").touch()
    here = config(
        python="envs/toy/bin/python",
        platform_python="python3",
        root="somewhere",
        runtime_dir="boxes",
        cache_dir="hashes",
        platform_arguments=("--assets-path", "pictures"),
        ray="auto",
        ray_nodes=2,
        build_environ={"TOKEN": "secret"},
        command=("rpent-box", "eval"),
    )
    there = config_for_others(here, check_evaluation(here))
    assert there.python == f"{tmp_path}/envs/toy/bin/python"
    assert there.platform_python == "python3"
    assert (there.root, there.runtime_dir) == (f"{tmp_path}/somewhere", f"{tmp_path}/boxes")
    assert there.cache_dir == f"{tmp_path}/hashes"
    assert there.platform_arguments == (f"--assets-path={tmp_path}/pictures",)
    assert (there.ray, there.ray_nodes, there.build_environ) == (None, None, None)
    assert there.command == ()
    # It plays the same.
    assert check_evaluation(there).plan.tasks == check_evaluation(here).plan.tasks


class Played(Exception):
    """Carries what `play_here` would have played with."""

    def __init__(self, setup, tell):
        super().__init__()
        self.setup, self.tell = setup, tell


def play(assignment, tmp_path, *, gpus=None):
    told = []
    with pytest.raises(Played) as caught:
        ray_crew.play_assignment(
            assignment,
            GivenJobs(),
            told.append,
            threading.Event(),
            run_dir=tmp_path,
            log_dir=tmp_path,
            gpus=gpus,
        )
    return caught.value, told


@pytest.fixture
def _no_programs(monkeypatch):
    def play_here(setup, _source, tell, _stop):
        raise Played(setup, tell)

    monkeypatch.setattr(ray_crew, "play_here", play_here)
    monkeypatch.setattr("rpent_box.evaluate.scale.preparing.gather", lambda *_: None)


@pytest.mark.usefixtures("_no_programs")
def test_it_plays_on_the_cores_that_are_set_aside_and_pins_only_where_all_are(tmp_path):
    cores = len(os.sched_getaffinity(0))
    for cpus, pins in ((cores, True), (cores - 1, False)):
        played, told = play(Assignment(place="node-1", config=config(), cpus=cpus), tmp_path)
        assert (played.setup.cores, played.setup.name) == (cpus, "node-1")
        assert played.setup.prepared.config.pin is pins
    assert told[0] == Phase(component="node-1 launcher", text="process: asked for")


@pytest.mark.usefixtures("_no_programs")
def test_the_gpu_that_is_set_aside_is_the_workers(tmp_path):
    assignment = Assignment(place="node-1", config=config(), cpus=1, gpus=1)
    played, _ = play(assignment, tmp_path, gpus="3")
    assert played.setup.prepared.config.cuda_device == "3"


@pytest.mark.usefixtures("_no_programs")
def test_the_checkpoint_of_this_machine_is_told_with_what_it_plays_with(tmp_path, monkeypatch):
    files = CheckpointManifest(backend="toy", platform="toy", checkpoint="toy", files=())
    monkeypatch.setattr(
        "rpent_box.evaluate.scale.preparing.checkpoint_of_run", lambda *_, **__: files
    )
    played, told = play(Assignment(place="node-0", config=config(), cpus=1), tmp_path)
    played.tell(KNOWN)
    played.tell(TWO)
    assert told[-2].checkpoint == files
    assert told[-1] == TWO


def test_what_is_wrong_on_that_machine_is_raised_there(tmp_path):
    assignment = Assignment(place="node-0", config=config(checkpoint="/nowhere/weights"), cpus=1)
    with pytest.raises(BadOption, match="/nowhere/weights"):
        ray_crew.play_assignment(
            assignment,
            GivenJobs(),
            lambda _event: None,
            threading.Event(),
            run_dir=tmp_path,
            log_dir=tmp_path,
            gpus=None,
        )
