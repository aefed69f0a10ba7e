# SPDX-License-Identifier: Apache-2.0
"""RLDX's whole code with tiny random weights: its loader, backbone, memory, action model, server.

    RPENT_BOX_RLDX_PYTHON=/path/to/python pytest -m upstream tests/upstream/test_rldx_tiny_model.py

How to make that Python: `test_rldx_server.py`.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import rldx_native_server
from rldx_fake import asked, context

from rpent_box.backends.rldx import own_server
from rpent_box.backends.rldx.checkpoint import inspect
from rpent_box.backends.rldx.loading import load
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey

PYTHON = os.environ.get("RPENT_BOX_RLDX_PYTHON", "")
SCRIPT = Path(rldx_native_server.__file__).parent / "rldx_upstream_tiny.py"
ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0
SURROUNDINGS = {
    "PYTHONPATH": str(ROOT),
    "RLDX_ATTN_IMPL": "sdpa",
    "NO_ALBUMENTATIONS_UPDATE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON,
        reason="RPENT_BOX_RLDX_PYTHON names no Python with rlinf-rldx. Run: RPENT_BOX_RLDX_PYTHON="
        "/path/to/python pytest -m upstream tests/upstream/test_rldx_tiny_model.py",
    ),
]


@pytest.fixture(scope="module", params=["plain", "memory"])
def checkpoint(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rldx") / request.param
    subprocess.run(
        [PYTHON, str(SCRIPT), "make", str(folder), request.param],
        env={**os.environ, **SURROUNDINGS},
        check=True,
        timeout=START_S,
    )
    return folder


@contextmanager
def served(checkpoint, **options):
    """Yield the backend with a server of its own, as it is started for a run."""
    with pytest.MonkeyPatch.context() as patch:
        words = own_server.server_words
        patch.setattr(
            own_server, "server_words", lambda *given: (PYTHON, str(SCRIPT), *words(*given)[3:])
        )
        patch.setattr(own_server, "server_environment", lambda _: SURROUNDINGS)
        given = RldxOptions(start_timeout_s=START_S, **options)
        backend = load(given, context(checkpoint=str(checkpoint)))
    try:
        yield backend
    finally:
        backend.close()


def ask(backend, level=90, chunk=0, session="mine", **options):
    """Predict with the noise of one chunk of one episode."""
    episode = EpisodeKey(seed=0, suite="kitchen", task=0, episode=0, chunk=chunk)
    chunk = backend.predict(asked(backend, level, session=session, episode=episode, **options))
    check_actions(chunk, backend.meta)
    return chunk.actions


def test_it_loads_predicts_repeats_and_remembers(checkpoint):
    facts = inspect(RldxOptions(), checkpoint, "robocasa").facts
    with served(checkpoint) as backend:
        assert facts["frames_steps_ago"] == "2 0"
        assert len(backend.meta.camera_roles) == 6
        backend.reset("mine")
        first = ask(backend)
        backend.reset("mine")
        assert np.array_equal(ask(backend), first), "same scene, same noise, no past: the same"
        assert not np.array_equal(ask(backend, chunk=1), first), "other noise"
        backend.reset("mine")
        assert not np.array_equal(ask(backend, 200), first), "other frames"
        # Another past: not the same frames again, of which an average is what they are.
        after_another = ask(backend)
        remembers = facts["memory"] != "none"
        assert np.array_equal(after_another, first) != remembers
        backend.reset("mine")
        ask(backend, 200)
        backend.reset("other")
        ask(backend, 30, session="other")
        assert np.array_equal(ask(backend), after_another), "another session left nothing here"


def test_real_time_chunking_continues_the_last_chunk(checkpoint):
    with served(checkpoint, rtc="guided", rtc_delay=2) as backend:
        backend.reset("mine")
        ask(backend)
        by_the_server = ask(backend, chunk=1)
        backend.reset("mine")
        ask(backend)
        by_us = ask(backend, chunk=1, options={"rtc_prefix_len": 2})
        assert np.abs(by_the_server - by_us).max() < 0.05, "both are the same two steps"
        backend.reset("mine")
        assert np.abs(by_the_server - ask(backend, chunk=1)).max() > 0.05, (
            "a chunk that starts anew"
        )
