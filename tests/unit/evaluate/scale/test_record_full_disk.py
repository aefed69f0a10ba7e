# SPDX-License-Identifier: Apache-2.0
"""A disk that is full in the middle: a clear error, no row that is half counted, and a way on."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import full_disk
import pytest
from eval_record_parts import JOBS, STARTED, begun, play, played, resumed

from rpent_box.errors import OutputError
from rpent_box.evaluate.scale import record as module
from rpent_box.evaluate.scale.manifest import read_eval_manifest
from rpent_box.evaluate.scale.plan import key_of
from rpent_box.sim import lines
from rpent_box.sim.results import read_results

OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")


def may_mount():
    try:
        done = subprocess.run([*OWN_MOUNTS, "true"], capture_output=True, timeout=20, check=False)
    except OSError:
        return False
    return done.returncode == 0


@pytest.mark.parametrize("every_s", [3600, 0], ids=["row first", "manifest first"])
def test_a_disk_that_is_really_full_costs_no_row_and_counts_none_twice(tmp_path, every_s):
    if not may_mount():
        pytest.skip("this user may not mount anything in a namespace: unshare --user --mount")
    done = subprocess.run(
        [*OWN_MOUNTS, sys.executable, full_disk.__file__, str(tmp_path), str(every_s)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert "cannot be written: No space left on device" in said["error"]
    assert "Make room" in said["error"]
    assert 0 < said["rows"] == said["known"] < 200
    assert said["left"] == 200 - said["rows"]
    assert said["finished"] == said["keys"] == 200
    assert said["end"] == "complete"
    assert said["files"] == [".writer", "eval.json", "failed.jsonl", "results.jsonl"]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_evaluation_whose_disk_is_full_fails_with_that_and_is_resumed(tmp_path, monkeypatch):
    record = begun(tmp_path)
    play(record, JOBS[:2])
    monkeypatch.setattr(lines.os, "write", full)
    with (
        pytest.raises(OutputError, match=r"results.jsonl cannot be written: No space left"),
        record,
    ):
        record.add(played(JOBS[2]))
    monkeypatch.undo()
    assert len(read_results(record.run_dir)) == 2
    with resumed(record) as again:
        again.begin(STARTED)
        play(again, JOBS[2:])
    assert [key_of(row) for row in read_results(record.run_dir)] == [job.key for job in JOBS]


def test_a_row_whose_manifest_could_not_be_written_counts_all_the_same(tmp_path, monkeypatch):
    record = begun(tmp_path)
    monkeypatch.setattr(module, "WRITE_EVERY_S", 0.0)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match=r"eval.json cannot be written: No space left"), record:
        record.add(played(JOBS[0]))
    monkeypatch.undo()
    assert read_eval_manifest(record.run_dir).status == "running"
    assert resumed(record).left == JOBS[1:]


def test_what_an_evaluation_failed_of_is_not_hidden_by_a_disk_that_is_full_too(
    tmp_path, monkeypatch
):
    record = begun(tmp_path)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(KeyError, match="what it failed of"), record:
        raise KeyError("what it failed of")


def test_a_row_whose_files_did_not_reach_the_disk_is_not_written(tmp_path, monkeypatch):
    with begun(tmp_path) as record:
        (record.episode_folder(JOBS[0]) / "actions.npy").write_bytes(b"actions")
        monkeypatch.setattr(module, "sync_files", full)
        with pytest.raises(OutputError, match="episode-000 cannot be written"):
            record.add(played(JOBS[0]))
        monkeypatch.undo()
        assert record.left == JOBS
    assert read_results(record.run_dir) == []
