# SPDX-License-Identifier: Apache-2.0
import json
import re
import subprocess

import pytest
from msgspec.structs import replace
from rpent_box_toy.backend import META as MODEL
from rpent_box_toy.platform import META as PLATFORM

from rpent_box.contracts.checkpoint import CheckpointFile, CheckpointManifest
from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.errors import OutputError, ProgramDied
from rpent_box.sim.manifest import (
    SEED_RULE,
    Plan,
    SimulatorFacts,
    WorkerFacts,
    host_facts,
    read_manifest,
)
from rpent_box.sim.record import RunRecord, Started
from rpent_box.sim.results import read_results
from rpent_box.version import __version__

PLAN = Plan(
    platform="toy",
    suite="toy_easy",
    task=0,
    task_name="reach",
    episodes=2,
    first_init_state=0,
    seed=7,
    max_steps=40,
    execute_steps=None,
    video="none",
    backend="toy",
)
STARTED = Started(launcher="process", why="no engine", command=("rpent-box", "run"))
PLAYED = EpisodePlayed(
    suite="toy_easy",
    task=0,
    init_state=0,
    episode=0,
    seed=7,
    instruction="go",
    success=True,
    steps=3,
    predictions=1,
    execute_steps=4,
    max_steps=40,
    wall_s=0.1,
    setup_s=0.1,
    stages_s={},
    actions_sha256="",
    first_frames_sha256="",
)


def test_a_run_is_written_down_from_its_first_moment(tmp_path):
    with RunRecord(str(tmp_path), PLAN, STARTED) as record:
        manifest = read_manifest(record.run_dir)
        assert manifest.status == "running"
        assert manifest.plan == PLAN
        assert manifest.seed_rule == SEED_RULE
        assert (manifest.launcher, manifest.launcher_why) == ("process", "no engine")
        assert manifest.command == ("rpent-box", "run")
        assert manifest.host.rpent_box == __version__
        assert read_results(record.run_dir) == []


def test_a_complete_run_holds_what_decided_its_results(tmp_path):
    simulator = SimulatorFacts(meta=PLATFORM, versions={"numpy": "1"}, renderer="numpy")
    worker = WorkerFacts(meta=MODEL, rpent_box="0.1.0")
    with RunRecord(str(tmp_path), PLAN, STARTED) as record:
        record.note(simulator=simulator)
        record.note(worker=worker, images={"worker": "sha256:1"})
        record.add(PLAYED)
        record.add(replace(PLAYED, episode=1, success=False))
        record.complete()
    manifest = read_manifest(record.run_dir)
    assert (manifest.status, manifest.error) == ("complete", None)
    assert (manifest.simulator, manifest.worker) == (simulator, worker)
    assert manifest.images == {"worker": "sha256:1"}
    assert (manifest.episodes_played, manifest.successes) == (2, 1)
    assert manifest.finished_at is not None


def test_a_run_says_which_files_decided_its_actions(tmp_path):
    weights = CheckpointFile(role="weights", path="a.pt", size=3, sha256="a" * 64)
    checkpoint = CheckpointManifest(
        backend="toy", platform="toy", checkpoint="toys", files=(weights,), suites=("toy_easy",)
    )
    with RunRecord(str(tmp_path), PLAN, STARTED) as record:
        record.note(checkpoint=checkpoint)
        record.note(images={})
    assert read_manifest(record.run_dir).checkpoint == checkpoint


def test_of_a_worker_that_ran_already_no_files_are_known(tmp_path):
    with RunRecord(str(tmp_path), PLAN, STARTED) as record:
        record.note(checkpoint=None)
    assert read_manifest(record.run_dir).checkpoint is None


def test_a_failed_run_keeps_its_rows_and_says_why(tmp_path):
    record = RunRecord(str(tmp_path), PLAN, STARTED)
    record.add(PLAYED)
    with pytest.raises(ProgramDied), record:
        raise ProgramDied("worker toy (process 3) has ended: killed by SIGKILL")
    manifest = read_manifest(record.run_dir)
    assert manifest.status == "failed"
    assert manifest.error == ("ProgramDied: worker toy (process 3) has ended: killed by SIGKILL")
    assert manifest.episodes_played == 1
    assert [row.steps for row in read_results(record.run_dir)] == [3]


def test_an_interrupted_run_is_a_failed_one(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        RunRecord(str(tmp_path), PLAN, STARTED) as record,
    ):
        raise KeyboardInterrupt
    assert read_manifest(record.run_dir).error == "stopped by SIGINT"


def test_a_run_that_a_signal_ended_says_which(tmp_path):
    with pytest.raises(SystemExit), RunRecord(str(tmp_path), PLAN, STARTED) as record:
        raise SystemExit(143)
    assert read_manifest(record.run_dir).error == "stopped by SIGTERM"


def test_the_machine_is_described():
    facts = host_facts()
    assert facts.cores >= 1
    assert facts.cpu
    assert re.fullmatch(r"3\.\d+\.\d+.*", facts.python)


def test_the_git_revision_is_the_checkouts_own(tmp_path, monkeypatch):
    package = tmp_path / "rpent_box" / "sim"
    package.mkdir(parents=True)
    monkeypatch.setattr("rpent_box.sim.manifest.__file__", str(package / "manifest.py"))
    assert host_facts().git_revision is None

    def git(*words):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    assert host_facts().git_revision == git("rev-parse", "HEAD")
    (tmp_path / "file").write_text("2")
    assert host_facts().git_revision == git("rev-parse", "HEAD") + "-dirty"


def test_a_manifest_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(OutputError, match="cannot be read"):
        read_manifest(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(OutputError, match="is not a run's manifest"):
        read_manifest(tmp_path)


def test_a_restart_is_counted_at_once(tmp_path):
    with RunRecord(str(tmp_path), PLAN, STARTED) as record:
        record.count_restart()
        record.count_restart()
        assert read_manifest(record.run_dir).restarts == 2


def test_a_manifest_from_before_restarts_were_counted_still_reads(tmp_path):
    with RunRecord(str(tmp_path), PLAN, STARTED) as record:
        record.complete()
    path = record.run_dir / "run.json"
    fields = json.loads(path.read_bytes())
    assert fields.pop("restarts") == 0
    path.write_text(json.dumps(fields))
    assert read_manifest(record.run_dir).restarts == 0


def test_no_secret_of_a_command_line_is_written(tmp_path):
    words = ("--url=http://me:hush@host/?token=hush",)
    started = replace(STARTED, command=("rpent-box", "run", "--api-key", "hush", *words))
    with RunRecord(str(tmp_path), replace(PLAN, backend_arguments=words), started) as record:
        record.complete()
    assert "hush" not in (record.run_dir / "run.json").read_text()
    assert read_manifest(record.run_dir).plan.backend_arguments == (
        "--url=http://***@host/?token=***",
    )


def test_what_a_run_failed_of_is_not_hidden_by_a_disk_that_is_full_too(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    record = RunRecord(str(tmp_path), PLAN, STARTED)
    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(ProgramDied), record:
        raise ProgramDied("worker toy (process 3) has ended: killed by SIGKILL")
