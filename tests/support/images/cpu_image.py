# SPDX-License-Identifier: Apache-2.0
"""A model's CPU image, built from this checkout and played with by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rpent_box.errors import LaunchError
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.images import image_name, image_state
from rpent_box.launch.recipe import Target

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

ROOT = Path(__file__).resolve().parents[3]
WHEEL = "torch-2.13.0+cpu-*.whl"


def engine_with_images(backend: str, *, how: str) -> Engine:
    """Return an engine with the CPU image of `backend` and LIBERO's, built from this checkout.

    Skips the test where they cannot be had; `how` says what would run it.
    """
    try:
        check_engine(engine_socket())
    except LaunchError as error:
        pytest.skip(f"no Docker engine: {error.message}")
    from rpent_box.launch.engine import Engine

    engine = Engine.connect()
    image = image_name("backend", backend, "cpu")
    programs = (Target("backend", backend, "cpu"), Target("platform", "libero"))
    stale = [target for target in programs if image_state(engine, *target) != "ready"]
    if programs[0] in stale and not list((ROOT / "images/wheels").glob(WHEEL)):
        pytest.skip(f"{image} is not built from this checkout, and {WHEEL} is not here. {how}")
    try:
        build_images(stale, say=lambda _text: None, environ=os.environ)
    except LaunchError as error:
        pytest.skip(f"{image} cannot be built here: {error.message} {how}")
    return engine


def play_in_containers(
    rooms: Path, backend: str, *words: str, steps: int, timeout_s: int
) -> tuple[dict[str, Any], np.ndarray, Path]:
    """Play the first steps of a LIBERO episode by the command line, on the CPU.

    Returns what it says, the actions float32 [steps, 7], and the run's folder.
    """
    command = [sys.executable, "-m", "rpent_box.cli.main", "run", "--launcher", "docker"]
    command += ["--platform", "libero", "--backend", backend, "--device", "cpu"]
    command += ["--max-steps", str(steps), "--video", "none", "--json", *words]
    done = subprocess.run(
        command,
        cwd=rooms,
        env={**os.environ, "RPENT_BOX_RUNTIME_DIR": str(rooms / "boxes")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    run = Path(summary["run_dir"])
    return summary, np.load(run / "episode-000" / "actions.npy"), run
