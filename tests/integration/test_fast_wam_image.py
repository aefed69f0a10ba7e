# SPDX-License-Identifier: Apache-2.0
"""fast-wam's CPU image, built for real: FastWAM's own code moves LIBERO's robot, tiny weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cpu_image import ROOT, WHEEL, engine_with_images, play_in_containers
from rpent_box_toy.running import short_folder

from rpent_box.launch.images import image_name

if TYPE_CHECKING:
    from rpent_box.launch.engine import Engine

pytestmark = [
    pytest.mark.docker,
    pytest.mark.upstream,
    pytest.mark.simulator,
    pytest.mark.timeout(1800),
]

SUPPORT = ROOT / "tests/support/fast_wam"
IMAGE = image_name("backend", "fast-wam", "cpu")
HOW = (
    f"Put {WHEEL} into images/wheels and, where git cannot reach FastWAM, its tree into "
    "images/sources/FastWAM (images/sources/README.md), then: rpent-box build fast-wam "
    "--variant cpu && rpent-box build libero && pytest tests/integration/test_fast_wam_image.py"
)
EXECUTED, STEPS = 10, 15
"""Two chunks, of which the second is not played to its end."""
TIMEOUT_S = 600
MARK = "answer: "


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine with both images, built from this checkout."""
    return engine_with_images("fast-wam", how=HOW)


@pytest.fixture(scope="module")
def rooms() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


def run_in_image(engine: Engine, folder: Path, *words: str) -> str:
    """Run Python in the image as the caller, without a network, and return what it printed."""
    said: bytes = engine.client.containers.run(
        IMAGE,
        list(words),
        entrypoint="python3",
        user=f"{os.getuid()}:{os.getgid()}",
        volumes={
            str(SUPPORT): {"bind": "/support", "mode": "ro"},
            str(folder): {"bind": str(folder), "mode": "rw"},
        },
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": "rw"},
        remove=True,
    )
    return said.decode()


def make(engine: Engine, folder: Path, platform: str) -> Path:
    """Make a checkpoint in the image, where FastWAM is."""
    folder.mkdir()
    run_in_image(engine, folder, "/support/fast_wam_tiny.py", str(folder), "--platform", platform)
    return folder


@pytest.fixture(scope="module")
def checkpoint(engine: Engine, rooms: Path) -> Path:
    return make(engine, rooms / "tiny", "libero")


def play(rooms: Path, checkpoint: Path, *words: str) -> tuple[dict[str, Any], np.ndarray, Path]:
    """Play the first steps of an episode by the command line; return what it says and did."""
    words = ("--checkpoint", str(checkpoint), "--config", str(checkpoint / "tiny.yaml"), *words)
    return play_in_containers(rooms, "fast-wam", *words, steps=STEPS, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def first(rooms: Path, checkpoint: Path) -> tuple[dict[str, Any], np.ndarray, Path]:
    return play(rooms, checkpoint)


def test_fastwams_actions_are_executed_in_the_simulator(
    first: tuple[dict[str, Any], np.ndarray, Path],
) -> None:
    summary, actions, _ = first
    (episode,) = summary["episodes"]
    assert (episode["steps"], episode["predictions"]) == (STEPS, 2)
    assert episode["execute_steps"] == EXECUTED
    assert actions.shape == (STEPS, 7)
    assert np.isfinite(actions).all()
    assert len(np.unique(actions, axis=0)) == STEPS
    assert set(np.abs(actions[:, 6])) == {1.0}


def test_the_result_says_which_code_and_which_files_decided(
    engine: Engine, first: tuple[dict[str, Any], np.ndarray, Path]
) -> None:
    run = json.loads((first[2] / "run.json").read_text())
    assert engine.client.images.get(IMAGE).id in run["images"]["worker"]
    assert run["plan"]["device"] == "cpu"
    provenance = run["worker"]["meta"]["provenance"]
    assert provenance["composed"] == "sim_libero"
    assert provenance["normalisation"] == "state min/max, action min/max"
    files = {file["role"]: file["sha256"] for file in run["checkpoint"]["files"]}
    models = {"weights", "statistics", "VAE", "text encoder", "tokenizer", "tokenizer settings"}
    assert set(files) == {*models, "configuration"}
    assert provenance["statistics_sha256"] == files["statistics"]


def test_two_runs_give_identical_actions_and_another_seed_does_not(
    rooms: Path, checkpoint: Path, first: tuple[dict[str, Any], np.ndarray, Path]
) -> None:
    again = play(rooms, checkpoint)
    assert again[1].tobytes() == first[1].tobytes()
    assert again[0]["episodes"][0]["actions_sha256"] == first[0]["episodes"][0]["actions_sha256"]
    other = play(rooms, checkpoint, "--backend-option", "seed=2")
    assert np.abs(other[1] - first[1]).max() > 1e-3


def test_statistics_of_the_other_robot_are_refused_before_anything_starts(
    rooms: Path, checkpoint: Path
) -> None:
    statistics = checkpoint / "libero_tiny_dataset_stats.json"
    whole = statistics.read_text()
    values = json.loads(whole)
    values["action"]["default"]["global_min"] *= 2
    statistics.write_text(json.dumps(values))
    try:
        with pytest.raises(AssertionError, match="14 numbers: RoboTwin's; LIBERO has 7"):
            play(rooms, checkpoint)
    finally:
        statistics.write_text(whole)


def test_robotwin_is_served_in_the_same_image(engine: Engine, rooms: Path) -> None:
    folder = make(engine, rooms / "tiny-robotwin", "robotwin")
    options = json.dumps({"config": str(folder / "tiny.yaml")})
    said = run_in_image(
        engine, folder, "/support/fast_wam_drive.py", str(folder), "robotwin", options
    )
    (line,) = (line for line in said.splitlines() if line.startswith(MARK))
    answer = json.loads(line.removeprefix(MARK))
    assert np.shape(answer["first"]) == (24, 14)
    assert answer["first"] == answer["again"] != answer["other_chunk"]


def test_the_image_holds_what_inference_imports_and_no_training_tools(engine: Engine) -> None:
    look = (
        "import importlib.util as u; "
        "from fastwam.models.wan22.fastwam import FastWAM; "
        "print([n for n in ('accelerate', 'datasets', 'deepspeed', 'ftfy', 'modelscope', 'pandas', "
        "'torchvision', 'wandb', 'mujoco', 'docker') if u.find_spec(n)])"
    )
    said = engine.client.containers.run(
        IMAGE,
        ["-c", look],
        entrypoint="python3",
        user="54321:54321",
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": "rw"},
        remove=True,
    )
    assert said.decode().strip().splitlines()[-1] == "[]"
