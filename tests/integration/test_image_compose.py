# SPDX-License-Identifier: Apache-2.0
"""The pair in compose/, played by compose alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpent_box.errors import LaunchError
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.recipe import Target

pytestmark = [pytest.mark.docker, pytest.mark.simulator, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
PAIR = "libero-mini-wam.yaml"
STEPS = 30
"""Enough for three predictions; whether the task is solved is another test's question."""


def _compose() -> list[str] | None:
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) is None:
            continue
        if subprocess.run([*words, "version"], capture_output=True, check=False).returncode == 0:
            return words
    return None


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[list[str], dict[str, str], Path]]:
    """Compose's words, its environment, and the folder for results. Removes what it made."""
    compose = _compose()
    if compose is None:
        pytest.skip("there is no docker compose")
    try:
        check_engine(engine_socket())
    except LaunchError as error:
        pytest.skip(f"no Docker engine: {error.message}")
    build_images(
        [Target("backend", "mini-wam"), Target("platform", "libero")],
        say=lambda _text: None,
        environ=os.environ,
    )
    (tmp_path / "compose").mkdir()
    runs = tmp_path / "runs"
    runs.mkdir()
    text = (ROOT / "compose" / PAIR).read_text()
    # A shorter episode than the suite's own limit, so that the test takes seconds.
    shortened = text.replace("- --task=", f"- --max-steps={STEPS}\n      - --task=")
    (tmp_path / "compose" / PAIR).write_text(shortened)
    words = [*compose, "-p", f"rpent-box-test-{uuid.uuid4().hex[:8]}", "-f", f"compose/{PAIR}"]
    environment = {**os.environ, "UID": str(os.getuid()), "GID": str(os.getgid())}
    yield words, environment, runs
    subprocess.run(
        [*words, "down", "--volumes", "--timeout=5"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
        timeout=120,
    )


def test_compose_alone_plays_an_episode_through_shared_memory(
    pair: tuple[list[str], dict[str, str], Path],
) -> None:
    words, environment, runs = pair
    up = ["up", "--no-build", "--abort-on-container-exit", "--exit-code-from=simulator"]
    done = subprocess.run(
        [*words, *up],
        cwd=runs.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (results,) = runs.glob("*/results.jsonl")
    assert results.stat().st_uid == os.getuid()
    (row,) = [json.loads(line) for line in results.read_text().splitlines()]
    assert row["steps"] == STEPS or row["success"]
    assert row["predictions"] >= 1
    assert row["stages_s"]["infer"] > 0
