# SPDX-License-Identifier: Apache-2.0
"""Cosmos Policy's own code on a CPU, with a small network and random weights, behind our backend.

`cosmos_policy_tiny.py` stands for its GPU packages, and `tiny_requirements.txt` beside it says how
to make the environment. Takes some minutes on one core.

RPENT_BOX_COSMOS_POLICY_PYTHON=/that/python RPENT_BOX_COSMOS_POLICY_ROOT=/its/source/tree \
    pytest tests/upstream/test_cosmos_policy_upstream.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rpent_box.backends.cosmos_policy.checkpoint import (
    EMBEDDINGS,
    HF_HOME,
    PICKLED_EMBEDDINGS,
    inspect,
)
from rpent_box.backends.cosmos_policy.convert_embeddings import convert
from rpent_box.backends.cosmos_policy.embeddings import TextEmbeddings
from rpent_box.backends.cosmos_policy.options import CosmosPolicyOptions

PYTHON = os.environ.get("RPENT_BOX_COSMOS_POLICY_PYTHON", "")
SOURCE = os.environ.get("RPENT_BOX_COSMOS_POLICY_ROOT", "")
ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests/support/cosmos_policy"
TIMEOUT_S = 1200
COMMAND = (
    "RPENT_BOX_COSMOS_POLICY_PYTHON=/that/python RPENT_BOX_COSMOS_POLICY_ROOT=/its/source/tree "
    "pytest tests/upstream/test_cosmos_policy_upstream.py"
)

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.skipif(
        not (PYTHON and SOURCE),
        reason="RPENT_BOX_COSMOS_POLICY_PYTHON and _ROOT name no Python with Cosmos Policy's "
        f"packages and its source tree; run: {COMMAND}",
    ),
]


def run(what: str, folder: Path, *more: Path) -> dict[str, Any]:
    """Run one step in Cosmos Policy's Python, from a folder that is not its source tree."""
    done = subprocess.run(
        [PYTHON, str(SUPPORT / "cosmos_policy_tiny_run.py"), what, str(folder), *map(str, more)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(SUPPORT), SOURCE)),
            "OMP_NUM_THREADS": "1",
            "WANDB_MODE": "disabled",
        },
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(folder.joinpath(f"{what}.json").read_text())
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint: random weights, and embeddings that PyTorch pickled and we converted."""
    place = tmp_path_factory.mktemp("cosmos")
    folder = place / "tiny"
    run("make", folder, place / "scratch")
    run("embed", folder)
    convert(folder / PICKLED_EMBEDDINGS, folder / EMBEDDINGS)
    return folder


@pytest.fixture(scope="module")
def predicted(folder: Path) -> dict[str, Any]:
    return run("predict", folder)


def test_the_converter_keeps_every_bit_of_what_pytorch_pickled(folder: Path) -> None:
    embeddings = TextEmbeddings.open(folder / EMBEDDINGS)
    with np.load(folder / "bits.npz") as stored:
        assert set(stored.files) == set(embeddings.instructions)
        for name in stored.files:
            found = embeddings.find(name)
            assert found is not None
            np.testing.assert_array_equal(found.view(np.uint32) >> 16, stored[name].view(np.uint16))


def test_weights_that_pytorch_saved_are_taken(folder: Path) -> None:
    roles = [file.role for file in inspect(CosmosPolicyOptions(), folder, "libero").files]
    assert roles == ["weights", "statistics", "text embeddings", "tokenizer"]


def test_the_backend_gives_what_cosmos_policy_gives_without_it(predicted: dict[str, Any]) -> None:
    assert np.shape(predicted["actions"]) == (16, 7)
    assert predicted["actions"] == predicted["directly"]
    assert predicted["value"] == predicted["directly_value"]
    assert predicted["future_equal"]
    assert predicted["future_shape"] == [224, 224, 3]


def test_one_moment_gives_the_same_actions_and_another_moment_others(
    predicted: dict[str, Any],
) -> None:
    assert predicted["actions"] == predicted["again"]
    assert predicted["actions"] != predicted["another_chunk"]


def test_neither_files_are_written_nor_a_simulator_is_imported(predicted: dict[str, Any]) -> None:
    assert predicted["written"] == []
    assert predicted["simulators"] == []


def test_the_cache_has_nothing_but_the_autoencoder(folder: Path) -> None:
    files = [path for path in (folder / HF_HOME).rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"main", "b10b", "tokenizer.pth"}


def test_weights_that_fill_a_part_of_the_network_are_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other, symlinks=True)
    run("spoil", other)
    told = r"leave 2 of .*x_embedder.proj.1.weight is missing; .*linear.weight is \[3, 5\], wanted"
    with pytest.raises(AssertionError, match=told):
        run("predict", other)


def test_pytorch_reads_shapes_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "looked").mkdir()
    found = run("look", tmp_path / "looked")
    assert found["new"] == found["old"] == {"weight": [2, 3], "bias": [2]}
    assert "not an allowed global" in found["bad"]
    assert not found["ran"]
