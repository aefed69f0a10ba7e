# SPDX-License-Identifier: Apache-2.0
"""The command as a user types it, with the toy pair as real processes."""

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

import pytest

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "support" / "toy"
COMMAND = [sys.executable, "-m", "rpent_box.cli.main"]
WORKER = ["--backend", "toy", "--python", sys.executable]
SIMULATOR = ["--platform", "toy", "--platform-python", sys.executable]
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


def wait_for_step(folder: Path, process: subprocess.Popen[str]) -> None:
    """Return once the robot has moved: the toy writes a line per apply."""
    deadline = time.monotonic() + PATIENCE_S
    while not (folder / "applied").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "the robot never moved"
        time.sleep(0.05)


def test_a_run_prints_one_object_and_leaves_only_its_folder(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    words = ["run", *WORKER, *SIMULATOR, "--episodes", "2", "--video", "none", "--json"]
    process = start(words, tmp_path, environment)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert (summary["successes"], len(summary["episodes"])) == (2, 2)
    assert Path(summary["run_dir"]).parent == tmp_path / "runs"
    assert "worker: ready" in err
    assert list(rooms.iterdir()) == []


def test_a_served_worker_outlives_its_runs_and_ends_cleanly_when_told(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    serving = start(["serve", "toy", "--python", sys.executable], tmp_path, environment)
    try:
        assert serving.stdout is not None
        endpoint = serving.stdout.readline().strip()
        assert endpoint.startswith(f"ipc://{rooms}"), endpoint
        for _ in range(2):
            words = ["run", "--endpoint", endpoint, *SIMULATOR, "--video", "none", "--json"]
            process = start(words, tmp_path, environment)
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, err
            assert json.loads(out)["endpoint"] == endpoint
        serving.send_signal(signal.SIGTERM)
        _, err = serving.communicate(timeout=PATIENCE_S)
        assert serving.returncode == 0, err
        assert list(rooms.iterdir()) == []
    finally:
        serving.kill()
        serving.wait()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_run_that_is_stopped_says_so_and_leaves_nothing(
    tmp_path: Path, rooms: Path, environment: dict[str, str], number: int, code: int
) -> None:
    slow = ["--platform-option", "step_delay_s=0.5"]
    seen = ["--platform-option", f"applied_log={tmp_path / 'applied'}"]
    process = start(["run", *WORKER, *SIMULATOR, *slow, *seen], tmp_path, environment)
    try:
        wait_for_step(tmp_path, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert out == ""
    assert "stopped: everything that this command had started is ended" in err
    assert "Traceback" not in err
    assert list(rooms.iterdir()) == []


def test_a_task_by_name_a_scene_by_seed_and_assets_by_variable_are_in_the_result(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "pictures.txt").touch()
    words = ["run", *WORKER, *SIMULATOR, "--suite", "toy_seeded", "--task", "far"]
    words += ["--scene-seed", "1003", "--toy-needs-assets", "--video", "none", "--json"]
    process = start(words, tmp_path, environment | {"TOY_ASSETS_PATH": "assets"})
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert (summary["task"], summary["task_name"]) == (1, "far")
    (episode,) = summary["episodes"]
    assert (episode["init_state"], episode["max_steps"]) == (1003, 60)
    plan = json.loads((Path(summary["run_dir"]) / "run.json").read_text())["plan"]
    assert (plan["task"], plan["task_name"], plan["first_init_state"]) == (1, "far", 1003)
    assert set(plan["platform_arguments"]) == {
        f"--assets-path={tmp_path}/assets",
        "--needs-assets",
    }


def test_without_assets_nothing_is_started_and_what_fetches_them_is_said(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    words = ["run", *WORKER, *SIMULATOR, "--toy-needs-assets"]
    process = start(words, tmp_path, environment)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "error: there is no pictures.txt in any folder that was named" in err
    assert "next:  Draw them: toy-draw DIR" in err
    assert list(tmp_path.iterdir()) == []
    assert list(rooms.iterdir()) == []


def test_the_doctor_looks_at_a_platform_with_its_own_options(
    tmp_path: Path, rooms: Path, environment: dict[str, str]
) -> None:
    """The frame is drawn in the simulator's own process, which has to be told of the assets."""
    words = ["doctor", *SIMULATOR, "--toy-needs-assets", "--json"]

    def findings(**more: str) -> dict[str, dict[str, str]]:
        process = start(words, tmp_path, environment | more)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert out, err
        return {one["name"]: one for one in json.loads(out)["findings"]}

    without = findings()
    for name in ("assets toy", "render toy"):
        assert without[name]["status"] == "warn"
        assert "toy-draw DIR" in without[name]["next_step"]
    assert "no scene of its tasks could be drawn" in without["render toy"]["message"]
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "pictures.txt").touch()
    whole = findings(TOY_ASSETS_PATH="assets")
    assert whole["assets toy"]["status"] == "ok"
    # One colour per camera is all that the toy draws: it was drawn, and the doctor says so.
    assert "draws nothing for primary, wrist" in whole["render toy"]["message"]
