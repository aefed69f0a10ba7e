# SPDX-License-Identifier: Apache-2.0
"""Our client against the server class of the model's package, and its client against our fake.

pip install rlinf-lingbotvla==0.1.3 websockets msgpack numpy torch   (the first --no-deps)
RPENT_BOX_LINGBOT_PYTHON=/that/python pytest tests/upstream/test_lingbot_server.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from lingbot_server import METADATA, chunk_of, lingbot_server
from lingbot_upstream import chunk_of as upstream_chunk_of
from lingbot_upstream import observation
from msgspec.structs import replace

from rpent_box.backends.lingbot.adapter import ADAPTERS
from rpent_box.backends.lingbot.connection import Connection, ServerAddress, is_healthy
from rpent_box.backends.lingbot.model import Lingbot, Server, load
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.backends.lingbot.own_server import answers
from rpent_box.backends.lingbot.wire import pack
from rpent_box.backends.native_service import NativeService
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.errors import DeadlineExceeded, PredictionFailed
from rpent_box.worker.backend import LoadContext, PredictionInput
from rpent_box.worker.warm_up import blank_observation

PYTHON = os.environ.get("RPENT_BOX_LINGBOT_PYTHON", "")
SCRIPT = Path(__file__).resolve().parents[1] / "support/lingbot/lingbot_upstream.py"
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(
        not PYTHON,
        reason="RPENT_BOX_LINGBOT_PYTHON names no Python with rlinf-lingbotvla==0.1.3; run: "
        "RPENT_BOX_LINGBOT_PYTHON=/that/python pytest tests/upstream/test_lingbot_server.py",
    ),
]


@pytest.fixture(scope="module")
def running():
    words = [PYTHON, str(SCRIPT), "serve"]
    with NativeService.start("real server", words, environment={"PYTHONPATH": str(ROOT)}) as server:
        yield server, server.wait_ready(answers, timeout_s=120.0)


@pytest.fixture
def address(running):
    server, where = running
    server.require_alive()
    return ServerAddress(where.host, where.port)


def asked(backend, *, instruction="stack the blocks", chunk=0, session="a"):
    shown = replace(blank_observation(backend.meta, (240, 320, 3)), instruction=instruction)
    episode = EpisodeKey(seed=1, suite="robotwin", task=2, episode=3, chunk=chunk)
    return PredictionInput(observation=shown, session=session, episode=episode)


@pytest.fixture
def ours(address):
    """The backend in front of a server of ours."""
    server = Server(address=address, checkpoint="fake", provenance={}, takes_seeds=True)
    backend = Lingbot(server, ADAPTERS["robotwin"], LingbotOptions(execute_steps=20))
    yield backend
    backend.close()


def test_it_listens_on_this_machine_s_own_address_alone(running):
    _, where = running
    assert where.address == "127.0.0.1"
    assert is_healthy(where.host, where.port)


def test_its_greeting_is_the_one_that_is_demanded(address):
    connection = Connection(address, connect_timeout_s=10.0, reply_timeout_s=10.0)
    assert connection.greeting == METADATA
    connection.close()


def test_a_reset_and_an_observation_are_answered(address):
    connection = Connection(address, connect_timeout_s=10.0, reply_timeout_s=10.0)
    assert connection.ask({"reset": True, "robo_name": "aloha"})["action"] is None
    reply = connection.ask(observation())
    np.testing.assert_allclose(reply["action"], upstream_chunk_of(observation()), atol=1.1e-3)
    assert reply["server_timing"].keys() == {"infer_ms", "prev_total_ms"}
    connection.close()


def test_the_same_moment_gives_the_same_actions_whoever_asks_between(ours):
    first = ours.predict(asked(ours))
    check_actions(first, ours.meta)
    ours.reset("b")
    ours.predict(asked(ours, session="b", chunk=7))
    again = ours.predict(asked(ours))
    np.testing.assert_array_equal(first.actions, again.actions)
    other = ours.predict(asked(ours, chunk=1))
    assert np.abs(first.actions - other.actions).max() > 1e-6


def test_a_borrowed_one_draws_its_own_noise(address):
    context = LoadContext(platform="robotwin", checkpoint=None, threads=1, say=lambda _: None)
    backend = load(LingbotOptions(service=address.url), context)
    first, again = (backend.predict(asked(backend)).actions for _ in range(2))
    difference = np.abs(first - again).max()
    assert 0 < difference < 0.01
    backend.close()


def test_the_policy_s_traceback_is_told_and_the_next_question_is_answered(ours):
    with pytest.raises(PredictionFailed, match="ValueError: the fake policy raised") as caught:
        ours.predict(asked(ours, instruction="raise"))
    assert "in infer" in caught.value.detail
    check_actions(ours.predict(asked(ours)), ours.meta)


def test_a_slow_policy_is_a_missed_deadline_and_its_late_answer_is_lost(address):
    server = Server(address=address, checkpoint="fake", provenance={}, takes_seeds=True)
    options = LingbotOptions(reply_timeout_s=0.5)
    backend = Lingbot(server, ADAPTERS["robotwin"], options)
    with pytest.raises(DeadlineExceeded):
        backend.predict(asked(backend, instruction="sleep 0.8"))
    connection = Connection(address, connect_timeout_s=10.0, reply_timeout_s=10.0)
    reply = connection.ask(observation())["action"]
    np.testing.assert_allclose(reply, upstream_chunk_of(observation()), atol=1.1e-3)
    connection.close()
    backend.close()


def test_the_package_s_client_is_served_by_our_fake_and_its_frames_are_ours():
    with lingbot_server() as fake:
        shown = subprocess.run(
            [PYTHON, str(SCRIPT), "ask", str(fake.port)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120.0,
            check=True,
        )
    told = json.loads(shown.stdout)
    assert told["metadata"] == METADATA
    np.testing.assert_array_equal(np.float32(told["action"]), chunk_of(observation()))
    assert fake.frames == [pack({"reset": True, "robo_name": "aloha"}), pack(observation())]
