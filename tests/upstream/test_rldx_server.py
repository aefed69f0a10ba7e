# SPDX-License-Identifier: Apache-2.0
"""Against the real server of rlinf-rldx, whose model alone is a stand-in.

rpent-box build rldx --launcher process        # needs a python3.10; prints the environment's Python
RPENT_BOX_RLDX_PYTHON=/that/python pytest -m upstream tests/upstream/test_rldx_server.py
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import rldx_native_server
import zmq
from rldx_checkpoint import make_checkpoint
from rldx_fake import asked, context, observation
from running_service import running, wait_until
from upstream_goldens import golden_json

from rpent_box.backends.native_service import NativeService, hold_port
from rpent_box.backends.rldx import BACKEND, own_server
from rpent_box.backends.rldx.checkpoint import inspect
from rpent_box.backends.rldx.client import RldxClient
from rpent_box.backends.rldx.codec import decode, encode
from rpent_box.backends.rldx.loading import load
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.errors import BadOption, DeadlineExceeded, PredictionFailed, SessionGone
from rpent_box.worker.config import ServiceConfig

PYTHON = os.environ.get("RPENT_BOX_RLDX_PYTHON", "")
SUPPORT = Path(rldx_native_server.__file__).parent
SCRIPT = SUPPORT / "rldx_upstream_server.py"
CHECKPOINT = SUPPORT / "rldx_upstream_checkpoint.py"
ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(
        not PYTHON,
        reason="RPENT_BOX_RLDX_PYTHON names no Python with rlinf-rldx. Run: RPENT_BOX_RLDX_PYTHON="
        "/path/to/python pytest -m upstream tests/upstream/test_rldx_server.py",
    ),
]


@contextmanager
def upstream(*words, deltas="0", **options):
    """Yield the endpoint of upstream's server, started with our own words and `words` behind."""
    environment = {"PYTHONPATH": str(ROOT), "RLDX_TEST_DELTAS": deltas}
    environment |= own_server.server_environment(RldxOptions())
    with hold_port() as port:
        given = own_server.server_words(RldxOptions(**options), ROOT, "cpu", port)
        command = [PYTHON, str(SCRIPT), *given[3:], *words]
        with NativeService.start("RLDX server", command, environment=environment) as server:
            where = server.wait_ready(own_server.answers, timeout_s=START_S, port=port)
            yield f"tcp://127.0.0.1:{where.port}"


@pytest.fixture(scope="module")
def endpoint():
    with upstream() as endpoint:
        yield endpoint


@contextmanager
def loaded(endpoint, **options):
    given = {"timeout_s": 30.0, "start_timeout_s": 60.0, **options}
    backend = load(RldxOptions(service=endpoint, **given), context())
    try:
        yield backend
    finally:
        backend.close()


def told(endpoint, message):
    """Ask with a plain socket; return the bytes of the answer."""
    with zmq.Context() as plain, plain.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(endpoint)
        socket.send(message)
        assert socket.poll(30_000), "no answer"
        return socket.recv()


def sessions(endpoint):
    return decode(told(endpoint, encode({"endpoint": "sessions"})))


def count(chunk):
    """Undo upstream's scaling: -2 to 2 became -1 to 1, and the count is in hundredths."""
    return round(float(chunk.actions[0, 0]) / 2 * 100)


def grey(chunk, column):
    return round(float(chunk.actions[0, column]) / 2 * 255)


def test_the_wire_is_still_the_one_that_was_written_down(endpoint):
    for case in golden_json("wire_rldx")["cases"]:
        if case["sent_meaning"]["endpoint"] in ("ping", "nope") and "token" not in case["what"]:
            answer = told(endpoint, bytes.fromhex(case["request_hex"]))
            assert answer.hex() == case["response_hex"], case["what"]


def test_upstreams_own_parser_takes_our_words():
    words = own_server.server_words(
        RldxOptions(rtc="guided", rtc_delay=2, compile="submodule"), Path("/nowhere"), "cuda", 1
    )
    done = subprocess.run(
        [PYTHON, *words[1:]],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_ALBUMENTATIONS_UPDATE": "1"},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert "Model path /nowhere does not exist" in done.stderr
    assert "Embodiment tag: EmbodimentTag.GENERAL_EMBODIMENT" in done.stdout


def test_a_checkpoint_that_upstream_wrote_is_read_as_upstream_means_it(tmp_path):
    done = subprocess.run(
        [PYTHON, str(CHECKPOINT), str(tmp_path / "c"), "use_memory=true", "memory_stride=8"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_ALBUMENTATIONS_UPDATE": "1"},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = inspect(RldxOptions(), tmp_path / "c", "robocasa")
    assert [file.role for file in found.files] == [
        "config",
        "weights",
        "processor config",
        "statistics",
        "embodiment heads",
    ]
    assert found.facts["memory"] == "every 8 steps"
    # What upstream leaves out of config.json are its defaults.
    assert found.facts["frames_steps_ago"] == "6 4 2 0"
    assert found.facts["normalisation"] == "q01/q99"
    with pytest.raises(BadOption, match="every 8th control step"):
        inspect(RldxOptions(execute_steps=4), tmp_path / "c", "robocasa")


def test_two_clients_interleave_without_touching_each_others_memory(endpoint):
    config = ServiceConfig(sweep_s=0.05, drain_s=5.0)
    with loaded(endpoint) as backend, running(backend, spec=BACKEND, config=config) as worker:
        a, b = worker.client("same name"), worker.client("same name")
        seen = []
        for who, level in ((a, 10), (b, 90), (a, 11), (a, 12), (b, 91)):
            chunk = who.predict(observation(who.meta, level))
            seen.append((count(chunk), grey(chunk, 1)))
        assert seen == [(1, 10), (1, 90), (2, 11), (3, 12), (2, 91)]
        a.reset()
        assert [count(who.predict(observation(who.meta))) for who in (a, b)] == [1, 3]
        assert len(sessions(endpoint)) == 2
    assert sessions(endpoint) == []


def test_an_idle_clients_memory_is_swept_at_the_server_and_no_others(endpoint):
    config = ServiceConfig(session_idle_s=1.0, sweep_s=0.05, drain_s=5.0)
    with loaded(endpoint) as backend, running(backend, spec=BACKEND, config=config) as worker:
        idle, busy = worker.client("idle"), worker.client("busy")
        idle.predict(observation(idle.meta))
        (idles,) = sessions(endpoint)

        def swept():
            busy.predict(observation(busy.meta))
            return idles not in sessions(endpoint)

        wait_until(swept)
        assert len(sessions(endpoint)) == 1
        with pytest.raises(SessionGone):
            idle.predict(observation(idle.meta))
        idle.reset()
        assert count(idle.predict(observation(idle.meta))) == 1


def test_a_server_with_the_wrapper_is_found_out_and_asked_in_its_way():
    with upstream("--use-sim-policy-wrapper") as endpoint, loaded(endpoint) as backend:
        chunks = [backend.predict(asked(backend, 33)) for _ in range(2)]
        assert [count(chunk) for chunk in chunks] == [1, 2]
        assert grey(chunks[1], 1) == 33
        assert set(chunks[0].actions[:, 6]) <= {-1.0, 1.0}


@pytest.mark.parametrize("history", ["platform", "predictions"])
def test_frames_of_earlier_steps_arrive_oldest_first(history):
    with upstream(deltas="-16 -8 0") as endpoint, loaded(endpoint, history=history) as backend:
        chunks = [backend.predict(asked(backend, level)) for level in (10, 40, 70)]
        assert [grey(chunk, 1) for chunk in chunks] == [10, 40, 70]
        # Roles in the meta's order are `level`, `level` + 1, …: the left camera's oldest is + 6.
        wanted = [16, 46, 76] if history == "platform" else [10, 10, 10]
        assert [grey(chunk, 2) for chunk in chunks] == wanted


def test_an_observation_that_upstream_refuses_is_said_in_its_words(endpoint):
    with RldxClient(endpoint, timeout_s=30.0) as client:
        refused = pytest.raises(PredictionFailed, match="must contain a 'video' key")
        with refused:
            client.get_action({}, {"session_ids": ["a"]}, connection=client.connect())


def test_after_a_failure_inside_the_model_a_session_starts_anew(endpoint):
    with loaded(endpoint) as backend:
        backend.predict(asked(backend))
        with pytest.raises(PredictionFailed, match="the model has failed"):
            backend.predict(asked(backend, instruction="fail now"))
        with pytest.raises(SessionGone):
            backend.predict(asked(backend))
        backend.reset("mine")
        assert count(backend.predict(asked(backend))) == 1


def test_a_question_that_was_given_up_spoils_neither_the_next_answer_nor_the_memory(endpoint):
    with loaded(endpoint, timeout_s=5.0) as backend:
        backend.predict(asked(backend, session="b"))
        backend._server.timeout_s = 0.3
        with pytest.raises(DeadlineExceeded):
            backend.predict(asked(backend, 200, session="a", instruction="wait a second"))
        backend._server.timeout_s = 30.0
        chunk = backend.predict(asked(backend, 20, session="b"))
        assert (count(chunk), grey(chunk, 1)) == (2, 20)
        backend.reset("a")
        assert count(backend.predict(asked(backend, session="a"))) == 1


def test_the_server_continues_its_own_chunk_behind_the_executed_steps():
    rtc = {"rtc": "guided", "rtc_delay": 2}
    with upstream(**rtc) as endpoint, loaded(endpoint, **rtc) as backend:
        first = backend.predict(asked(backend))
        second = backend.predict(asked(backend))
        # Column 4 is the step of the chunk that it was planned in.
        steps = (second.actions[:, 4] / 2 * 100).round(1).tolist()
        assert steps[:4] == pytest.approx([8, 9, 2, 3], abs=0.2)
        assert count(first) == 1


def test_a_prefix_of_ours_wins_over_the_servers_and_is_in_physical_units():
    rtc = {"rtc": "guided", "rtc_delay": 2}
    with upstream(**rtc) as endpoint, loaded(endpoint, **rtc) as backend:
        backend.predict(asked(backend))
        chunk = backend.predict(asked(backend, options={"rtc_prefix_len": 5}))
        steps = (chunk.actions[:, 4] / 2 * 100).round(1).tolist()
        assert steps == pytest.approx([8, 9, 10, 11, 12, 5, 6, 7], abs=0.2)
        backend.reset("mine")
        fresh = backend.predict(asked(backend, options={"rtc_prefix_len": 5}))
        assert (fresh.actions[:, 4] / 2 * 100).round(1).tolist() == pytest.approx(list(range(8)))


def test_a_server_of_ours_repeats_its_noise_and_a_borrowed_one_does_not(tmp_path, monkeypatch):
    words = own_server.server_words
    given = own_server.server_environment

    def instead(*arguments):
        return (PYTHON, str(SCRIPT), *words(*arguments)[3:])

    monkeypatch.setattr(own_server, "server_words", instead)
    monkeypatch.setattr(
        own_server,
        "server_environment",
        lambda options: {**given(options), "PYTHONPATH": str(ROOT)},
    )
    checkpoint = str(make_checkpoint(tmp_path / "RLDX-1-FT-RC365"))
    backend = load(RldxOptions(start_timeout_s=START_S), context(checkpoint=checkpoint))
    try:
        episodes = [EpisodeKey(seed=0, suite="s", task=0, episode=0, chunk=c) for c in (0, 1, 0)]
        noise = [
            float(backend.predict(asked(backend, episode=episode)).actions[0, 3])
            for episode in episodes
        ]
        endpoint, token = backend._server.endpoint, tmp_path / "token"
        with pytest.raises(PredictionFailed, match="Unauthorized"), loaded(endpoint):
            pass
        token.write_text(backend._server._token)
        with loaded(endpoint, token_file=str(token)) as borrower:
            free = [borrower.predict(asked(borrower)).actions[0, 3] for _ in range(2)]
    finally:
        backend.close()
    assert noise[0] == noise[2]
    assert len({*noise, *map(float, free)}) == 4
    assert np.isfinite(free).all()
