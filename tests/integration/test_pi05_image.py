# SPDX-License-Identifier: Apache-2.0
"""pi05's CPU image, built for real: openpi's own code moves LIBERO's robot, with tiny weights."""

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

SUPPORT = ROOT / "tests/support/pi05"
IMAGE = image_name("backend", "pi05", "cpu")
HOW = (
    f"Put {WHEEL} into images/wheels, then: rpent-box build pi05 --variant cpu && "
    "rpent-box build libero && pytest tests/integration/test_pi05_image.py"
)
STEPS = 8
"""Two chunks, of which the second is not played to its end."""
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine with both images, built from this checkout."""
    return engine_with_images("pi05", how=HOW)


@pytest.fixture(scope="module")
def rooms() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def checkpoint(engine: Engine, rooms: Path) -> Path:
    """A checkpoint that is made in the image, where openpi is."""
    folder = rooms / "tiny"
    folder.mkdir()
    volumes = {
        str(SUPPORT): {"bind": "/support", "mode": "ro"},
        str(folder): {"bind": "/out", "mode": "rw"},
    }
    engine.client.containers.run(
        IMAGE,
        ["/support/pi05_tiny.py", "/out"],
        entrypoint="python3",
        user=f"{os.getuid()}:{os.getgid()}",
        volumes=volumes,
        network_mode="none",
        remove=True,
    )
    return folder


def play(rooms: Path, checkpoint: Path, *words: str) -> tuple[dict[str, Any], np.ndarray, Path]:
    """Play the first steps of an episode by the command line; return what it says and did."""
    words = ("--config-file", str(SUPPORT / "pi05_tiny_config.py"), *words)
    words = ("--checkpoint", str(checkpoint), "--config-name", "tiny_libero", *words)
    return play_in_containers(rooms, "pi05", *words, steps=STEPS, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def first(rooms: Path, checkpoint: Path) -> tuple[dict[str, Any], np.ndarray, Path]:
    return play(rooms, checkpoint)


def test_openpis_actions_are_executed_in_the_simulator(
    first: tuple[dict[str, Any], np.ndarray, Path],
) -> None:
    summary, actions, _ = first
    (episode,) = summary["episodes"]
    assert (episode["steps"], episode["predictions"], episode["execute_steps"]) == (STEPS, 2, 5)
    assert actions.shape == (STEPS, 7)
    assert np.isfinite(actions).all()
    assert len(np.unique(actions, axis=0)) == STEPS


def test_the_result_says_which_code_and_which_files_decided(
    engine: Engine, first: tuple[dict[str, Any], np.ndarray, Path]
) -> None:
    run = json.loads((first[2] / "run.json").read_text())
    assert run["images"]["worker"] == f"{IMAGE} {engine.client.images.get(IMAGE).id}"
    assert run["plan"]["device"] == "cpu"
    provenance = run["worker"]["meta"]["provenance"]
    assert provenance["torch"] == "2.13.0+cpu"
    assert provenance["rlinf-openpi"] == "0.1.1"
    roles = {file["role"] for file in run["checkpoint"]["files"]}
    assert roles == {"weights", "statistics", "tokenizer", "configuration"}


def test_two_runs_give_identical_actions_and_another_seed_does_not(
    rooms: Path, checkpoint: Path, first: tuple[dict[str, Any], np.ndarray, Path]
) -> None:
    again = play(rooms, checkpoint)
    assert again[1].tobytes() == first[1].tobytes()
    assert again[0]["episodes"][0]["actions_sha256"] == first[0]["episodes"][0]["actions_sha256"]
    other = play(rooms, checkpoint, "--pi05-seed", "1")
    assert np.abs(other[1] - first[1]).max() > 1e-3


def test_a_damaged_checkpoint_is_refused_before_anything_starts(
    rooms: Path, checkpoint: Path
) -> None:
    weights = checkpoint / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    try:
        with pytest.raises(AssertionError, match="cut or damaged"):
            play(rooms, checkpoint)
    finally:
        weights.write_bytes(whole)


def test_the_image_holds_what_inference_imports_and_no_training_tools(engine: Engine) -> None:
    look = (
        "import importlib.util as u; "
        "from openpi.policies import policy_config; "
        "print([n for n in ('lerobot', 'wandb', 'gcsfs', 'cv2', 'tensorflow', 'mujoco', 'docker') "
        "if u.find_spec(n)])"
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
