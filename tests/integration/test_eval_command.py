# SPDX-License-Identifier: Apache-2.0
"""`rpent-box eval` as a user types it, with the toy pair as real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rpent_box.sim.results import read_results

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "support" / "toy"
COMMAND = [sys.executable, "-m", "rpent_box.cli.main", "eval"]
PAIR = [
    *("--backend", "toy", "--python", sys.executable),
    *("--platform", "toy", "--platform-python", sys.executable),
]
PATIENCE_S = 120.0


@pytest.fixture
def rooms() -> Iterator[Path]:
    # Not tmp_path: a socket's path holds 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rb-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def environment(rooms: Path) -> dict[str, str]:
    paths = [str(ROOT), str(TOY), str(TOY / "entry_points")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "RPENT_BOX_RUNTIME_DIR": str(rooms),
    }


def start(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def keys(run_dir: Path) -> list[tuple[str, int, int, int]]:
    return sorted((row.suite, row.task, row.init_state, row.seed) for row in read_results(run_dir))


def wait_for_rows(folder: Path, count: int, process: subprocess.Popen[str]) -> Path:
    """Return the evaluation's folder once it has so many results."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for path in folder.glob("runs/*/results.jsonl"):
            if path.read_bytes().count(b"\n") >= count:
                return path.parent
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "it never got so far"
        time.sleep(0.02)


def test_suites_are_played_whole_and_one_object_is_printed(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    words = [*PAIR, "--suite", "toy_easy,toy_hard", "--episodes", "2", "--seed", "7,8", "--json"]
    code, out, err = finish(start([*words, "--envs", "2"], tmp_path, environment))
    assert code == 0, err
    summary: dict[str, Any] = json.loads(out)
    assert (summary["status"], summary["envs"]) == ("complete", 2)
    assert [(one["suite"], one["done"]) for one in summary["suites"]] == [
        ("toy_easy", 8),
        ("toy_hard", 4),
    ]
    assert summary["total"]["successes"] == 8
    run_dir = Path(summary["run_dir"])
    assert run_dir.parent == tmp_path / "runs"
    asked = [("toy_easy", 0), ("toy_easy", 1), ("toy_hard", 0)]
    assert keys(run_dir) == sorted(
        (*t, state, s) for t in asked for state in (0, 1) for s in (7, 8)
    )
    assert (run_dir / "report.html").read_text().startswith("<!doctype html>")
    lines = err.splitlines()
    assert sum(" of 12: " in line for line in lines) == 12
    assert all(len(line) < 120 for line in lines)

    # Nothing else can be played into that folder; and what is complete is only shown again.
    code, _, err = finish(start(["--resume", "--suite", "toy_hard"], tmp_path, environment))
    assert code == 2
    assert "--resume excludes --suite" in err
    code, out, err = finish(start(["--resume", "--quiet", "--json"], tmp_path, environment))
    assert (code, err, json.loads(out)) == (0, "", summary)
    assert list(rooms.iterdir()) == []


def test_what_ended_in_an_error_is_tried_again_by_a_resume(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    """One scene loses its simulator three times, and never again."""
    breaks = ["--toy-breaks", "die_in_apply", "--toy-breaks-at-init-state", "1"]
    breaks += ["--toy-breaks-file", str(tmp_path / "breaks"), "--toy-breaks-times", "3"]
    words = [*PAIR, "--task", "reach", "--episodes", "3", "--envs", "1", "--no-report"]
    code, out, err = finish(start([*words, *breaks], tmp_path, environment))
    assert code == 1, err
    assert "toy, toy_easy, 1 task: incomplete" in out
    assert "episode 1 (toy_easy 0, init state 1): " in out
    (run_dir,) = (tmp_path / "runs").iterdir()
    assert out.splitlines()[-1] == f"go on      rpent-box eval --resume {run_dir}"
    assert [row.init_state for row in read_results(run_dir)] == [0, 2]

    code, out, err = finish(start(["--resume", str(run_dir), "--json"], tmp_path, environment))
    assert code == 0, err
    summary = json.loads(out)
    assert (summary["status"], summary["sittings"]) == ("complete", 2)
    assert [row.init_state for row in read_results(run_dir)] == [0, 2, 1]
    assert list(rooms.iterdir()) == []


def test_ctrl_c_keeps_what_is_finished_and_resume_plays_only_the_rest(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    words = [*PAIR, "--episodes", "3", "--envs", "2", "--toy-step-delay-s", "0.05", "--no-report"]
    process = start(words, tmp_path, environment)
    try:
        run_dir = wait_for_rows(tmp_path, 2, process)
        process.send_signal(signal.SIGINT)
    finally:
        code, out, err = finish(process)
    assert (code, out) == (130, "")
    before = read_results(run_dir)
    assert 2 <= len(before) < 6
    assert f"kept: {len(before)} of 6 episodes are on the disk: {run_dir}" in err
    assert f"next: rpent-box eval --resume {run_dir}" in err
    assert "Traceback" not in err
    assert list(rooms.iterdir()) == []

    code, out, err = finish(start(["--resume", "--no-report"], tmp_path, environment))
    assert code == 0, err
    assert f"6 episodes of 2 tasks, {len(before)} of them played already" in err
    assert "success    6 of 6: 100.0%" in out
    assert read_results(run_dir)[: len(before)] == before
    assert keys(run_dir) == [("toy_easy", task, n, 7) for task in (0, 1) for n in range(3)]
    assert list(rooms.iterdir()) == []
