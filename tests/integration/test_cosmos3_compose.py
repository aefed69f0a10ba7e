# SPDX-License-Identifier: Apache-2.0
"""The three of compose/libero-cosmos3.yaml: read by compose, and played with a stub as service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cosmos3_parts import write_statistics
from sglang_stub import MODEL

from rpent_box.errors import LaunchError
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.recipe import Target

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "tests" / "support" / "cosmos3" / "sglang_stub.py"
TRIO = ROOT / "compose" / "libero-cosmos3.yaml"
STEPS = 40
"""Enough for three predictions of sixteen steps."""


@pytest.fixture(scope="module")
def compose() -> list[str]:
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) is None:
            continue
        if subprocess.run([*words, "version"], capture_output=True, check=False).returncode == 0:
            return words
    pytest.skip("there is no docker compose")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "UID": str(os.getuid()),
        "GID": str(os.getgid()),
        "COSMOS3_MODEL": str(tmp_path),
        "COSMOS3_NAME": MODEL,
        "COSMOS3_STATISTICS": str(write_statistics(tmp_path)),
    }


def understood(compose: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what compose makes of the file."""
    return subprocess.run(
        [*compose, "-f", str(TRIO), "config"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.docker
def test_compose_understands_the_file_as_it_is_meant(
    compose: list[str], environment: dict[str, str]
) -> None:
    done = understood(compose, environment)
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    assert set(services) == {"sglang", "worker", "simulator"}
    (gpu,) = services["sglang"]["deploy"]["resources"]["reservations"]["devices"]
    assert gpu["device_ids"] == ["0"]
    assert "deploy" not in services["worker"]
    assert services["simulator"]["network_mode"] == "none"
    assert f"--checkpoint={MODEL}" in services["worker"]["command"]
    assert f"--served-model-name={MODEL}" in services["sglang"]["command"]
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


@pytest.mark.docker
@pytest.mark.parametrize("name", ["COSMOS3_MODEL", "COSMOS3_NAME", "COSMOS3_STATISTICS"])
def test_compose_asks_for_what_is_missing(
    compose: list[str], environment: dict[str, str], name: str
) -> None:
    del environment[name]
    done = understood(compose, environment)
    assert done.returncode != 0
    assert "the " in done.stderr


@pytest.fixture
def trio(
    compose: list[str], environment: dict[str, str], tmp_path: Path
) -> Iterator[tuple[list[str], Path]]:
    """Compose's words for the trio with a stub as its service, and the folder for results."""
    try:
        check_engine(engine_socket())
    except LaunchError as error:
        pytest.skip(f"no Docker engine: {error.message}")
    build_images(
        [Target("backend", "cosmos3"), Target("platform", "libero")],
        say=lambda _text: None,
        environ=os.environ,
    )
    runs = tmp_path / "runs"
    runs.mkdir()
    (tmp_path / "compose").mkdir()
    (tmp_path / "compose" / TRIO.name).write_text(yaml.safe_dump(_with_stub()))
    project = f"rpent-box-test-{uuid.uuid4().hex[:8]}"
    words = [*compose, "-p", project, "-f", f"compose/{TRIO.name}"]
    yield words, runs
    subprocess.run(
        [*words, "down", "--volumes", "--timeout=5"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
        timeout=120,
    )


def _with_stub() -> dict[str, Any]:
    """Return the file with the stub in SGLang's place and a short episode, all else as it is."""
    trio: dict[str, Any] = yaml.safe_load(TRIO.read_text())
    service = trio["services"]["sglang"]
    del service["deploy"], service["build"]
    service |= {
        "image": trio["services"]["worker"]["image"],
        "entrypoint": ["python3", "/sglang_stub.py"],
        "command": ["--host=0.0.0.0", "--port=30000", "--model=${COSMOS3_NAME}"],
        "volumes": [f"{STUB}:/sglang_stub.py:ro"],
    }
    trio["services"]["simulator"]["command"].append(f"--max-steps={STEPS}")
    return trio


@pytest.mark.docker
@pytest.mark.simulator
@pytest.mark.timeout(1800)
def test_compose_alone_plays_an_episode_that_the_service_computes(
    trio: tuple[list[str], Path], environment: dict[str, str]
) -> None:
    words, runs = trio
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
    (row,) = [json.loads(line) for line in results.read_text().splitlines()]
    assert row["steps"] == STEPS or row["success"]
    assert row["predictions"] == 3 or row["success"]
    run = json.loads(results.with_name("run.json").read_text())
    assert run["worker"]["meta"]["backend"] == "cosmos3"
    assert run["worker"]["meta"]["provenance"]["service"] == "http://sglang:30000"
