# SPDX-License-Identifier: Apache-2.0
"""The model's whole package on a CPU, with tiny random weights, in a server that we start.

uv pip install --no-deps --require-hashes -r images/lingbot/requirements.lock    (Python 3.11)
RPENT_BOX_LINGBOT_MODEL_PYTHON=/that/python pytest tests/upstream/test_lingbot_tiny.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

PYTHON = os.environ.get("RPENT_BOX_LINGBOT_MODEL_PYTHON", "")
ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests/support/lingbot"
TIMEOUT_S = 900

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.skipif(
        not PYTHON,
        reason="RPENT_BOX_LINGBOT_MODEL_PYTHON names no Python with the packages of "
        "images/lingbot/requirements.lock; run: RPENT_BOX_LINGBOT_MODEL_PYTHON=/that/python "
        "pytest tests/upstream/test_lingbot_tiny.py",
    ),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lingbot") / "tiny"
    paths = (ROOT, SUPPORT, SUPPORT / "tiny_site")
    done = subprocess.run(
        [PYTHON, str(SUPPORT / "lingbot_tiny.py"), str(folder)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = json.loads((folder / "answers.json").read_text())
    return answers, np.array(answers["chunks"])


def test_its_chunks_have_the_promised_shape_and_unit_quaternions(told):
    answers, chunks = told
    assert answers["action_horizon"] == 50
    assert chunks.shape == (4, 20, 16)
    assert np.isfinite(chunks).all()
    for columns in (slice(3, 7), slice(11, 15)):
        np.testing.assert_allclose(np.linalg.norm(chunks[..., columns], axis=-1), 1, atol=1e-5)


def test_the_same_moment_has_the_same_noise_and_another_moment_another(told):
    first, other, again, _ = told[1]
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_the_robot_s_pose_reaches_the_model(told):
    first, _, _, elsewhere = told[1]
    assert np.abs(first - elsewhere).max() > 1e-6


def test_the_checkpoint_s_facts_are_in_the_provenance(told):
    assert told[0]["provenance"]["normalisation"] == "bounds_99"
