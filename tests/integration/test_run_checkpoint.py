# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's files on their way into a run, or not."""

import sys

import pytest
from rpent_box_toy.running import Recorder, register_toy, short_folder, toy_config

from rpent_box.errors import BadCheckpoint
from rpent_box.evaluate.run import SilentWatcher, run_episodes
from rpent_box.launch import worker as workers
from rpent_box.launch.checkpoints import (
    checkpoint_of_run,
    read_written,
    write_manifest,
    written_path,
)
from rpent_box.launch.process import ProcessLauncher
from rpent_box.launch.standalone import standalone_worker
from rpent_box.plugins import find_backend
from rpent_box.sim.manifest import read_manifest
from rpent_box.worker.needs import Needs


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    register_toy(monkeypatch)


@pytest.fixture
def folder():
    with short_folder() as made:
        yield made


@pytest.fixture
def checkpoint(folder):
    """A checkpoint of the toy, tied to the suite that is played by default."""
    path = folder / "toys"
    path.mkdir()
    (path / "toy.json").write_text('{"suites": ["toy_easy"]}')
    manifest = checkpoint_of_run(find_backend("toy"), (), str(path), "toy", None, say=print)
    write_manifest(written_path(path), manifest)
    return path


def test_what_decided_the_actions_is_in_the_result(folder, checkpoint):
    recorder = Recorder()
    cache = folder / "cache"
    config = toy_config(folder, checkpoint=str(checkpoint), cache_dir=str(cache))
    summary = run_episodes(config, recorder)
    assert ("checkpoint", "ready") in recorder.phases
    found = read_manifest(folder / "runs" / summary.run).checkpoint
    assert found == read_written(checkpoint)
    assert found.suites == ("toy_easy",)
    assert found.files[0].path == "toy.json"


def test_a_borrowed_worker_says_which_files_it_was_started_with(folder, checkpoint):
    """And refuses a suite that they are not for, before the first step."""
    files = read_written(checkpoint)
    with standalone_worker(
        find_backend("toy"),
        ProcessLauncher(),
        needs=Needs(device="cpu"),
        checkpoint=str(checkpoint),
        platform="toy",
        options=(),
        python=sys.executable,
        root=None,
        cuda_device=None,
        threads=3,
        log=str(folder / "worker.log"),
        image="",
        start_timeout_s=120,
        say=lambda phase: None,
        checkpoint_files=files,
        runtime_dir=folder / "boxes",
    ) as worker:
        borrowing = {"endpoint": worker.endpoint, "python": None, "episodes": 1}
        summary = run_episodes(toy_config(folder, **borrowing), SilentWatcher())
        with pytest.raises(BadCheckpoint, match="trained on toy_easy; you asked for toy_hard"):
            run_episodes(toy_config(folder, suite="toy_hard", **borrowing), SilentWatcher())
        foggy = run_episodes(
            toy_config(folder, suite="toy_easy_foggy", **borrowing), SilentWatcher()
        )
    assert (foggy.suite, read_manifest(folder / "runs" / foggy.run).checkpoint) == (
        "toy_easy_foggy",
        files,
    )
    written = read_manifest(folder / "runs" / summary.run)
    assert written.checkpoint == files
    assert written.worker.meta.provenance["worker_threads"] == "3"
    assert written.worker.meta.provenance["worker_device"] == "cpu"
    assert summary.episodes[0].steps > 0


def test_a_variant_of_the_suite_that_it_is_tied_to_is_played(folder, checkpoint):
    config = toy_config(folder, checkpoint=str(checkpoint), suite="toy_easy_foggy", episodes=1)
    summary = run_episodes(config, SilentWatcher())
    assert read_manifest(folder / "runs" / summary.run).checkpoint == read_written(checkpoint)


def test_a_run_without_files_has_none_in_its_result(folder):
    summary = run_episodes(toy_config(folder), SilentWatcher())
    assert read_manifest(folder / "runs" / summary.run).checkpoint is None


@pytest.mark.parametrize("how", ["another suite", "changed", "missing"])
def test_a_checkpoint_that_does_not_fit_starts_nothing(folder, checkpoint, how, monkeypatch):
    monkeypatch.setattr(workers, "worker_program", lambda *_, **__: pytest.fail("too late"))
    config = toy_config(folder, checkpoint=str(checkpoint))
    match how:
        case "another suite":
            config = toy_config(folder, checkpoint=str(checkpoint), suite="toy_hard")
            said = "was trained on toy_easy; you asked for toy_hard"
        case "changed":
            (checkpoint / "toy.json").write_text('{"suites": ["toy_easy"], "more": 1}')
            said = "the weights toy.json changed"
        case _:
            (checkpoint / "toy.json").unlink()
            said = "has no weights: wanted toy.json"
    with pytest.raises(BadCheckpoint, match=said):
        run_episodes(config, SilentWatcher())
    assert not (folder / "runs").exists()
