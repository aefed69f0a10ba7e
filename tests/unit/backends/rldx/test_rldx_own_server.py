# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import rldx_native_server
from rldx_checkpoint import make_checkpoint
from rldx_fake import asked, context

from rpent_box.backends.native_ports import listeners
from rpent_box.backends.rldx import own_server
from rpent_box.backends.rldx.client import RldxClient
from rpent_box.backends.rldx.loading import load
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.backends.rldx.seeded_server import seeded
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.errors import BadCheckpoint, PredictionFailed, ProgramDied, SessionGone

SUPPORT = Path(rldx_native_server.__file__).parent
CHILD = SUPPORT / "rldx_child_server.py"


@pytest.fixture
def checkpoint(tmp_path):
    return str(make_checkpoint(tmp_path / "RLDX-1-FT-RC365"))


@pytest.fixture
def child(monkeypatch):
    """Start a stand-in for upstream's program, with the same words behind it."""
    words = own_server.server_words

    def instead(*arguments):
        _, _, _, *options = words(*arguments)
        return (sys.executable, str(CHILD), *options)

    monkeypatch.setattr(own_server, "server_words", instead)


@contextmanager
def loaded(checkpoint, **options):
    given = {"start_timeout_s": 60.0, "timeout_s": 30.0, **options}
    backend = load(RldxOptions(**given), context(checkpoint=checkpoint))
    try:
        yield backend
    finally:
        backend.close()


def test_the_servers_command_line_is_upstreams():
    options = RldxOptions(rtc="guided", rtc_delay=3, execute_steps=12, memory=False)
    words = own_server.server_words(options, Path("/weights/rldx"), "cuda", 4567)
    assert words == (
        sys.executable, "-m", "rpent_box.backends.rldx.seeded_server",
        "--model-path", "/weights/rldx",
        "--embodiment-tag", "GENERAL_EMBODIMENT",
        "--device", "cuda",
        "--host", "127.0.0.1",
        "--port", "4567",
        "--compile", "none",
        "--rtc-inference-mode", "guided",
        "--rtc-inference-delay", "3",
        "--rtc-inference-exec-horizon", "12",
        "--deactivate-memory",
    )  # fmt: skip
    assert "--no-deactivate-memory" in own_server.server_words(
        RldxOptions(), Path("/weights"), "cpu", 1
    )


def test_the_server_never_looks_for_a_network():
    plain = own_server.server_environment(RldxOptions())
    assert plain == {
        "RLDX_ATTN_IMPL": "sdpa",
        "NO_ALBUMENTATIONS_UPDATE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    cached = own_server.server_environment(
        RldxOptions(hf_home="/hf", attention="flash_attention_2")
    )
    assert cached["HF_HOME"] == "/hf"
    assert cached["HF_HUB_OFFLINE"] == "1"
    assert cached["RLDX_ATTN_IMPL"] == "flash_attention_2"


def test_a_server_of_ours_is_started_asked_and_ended(child, checkpoint):
    episode = EpisodeKey(seed=0, suite="kitchen", task=0, episode=0, chunk=0)
    with loaded(checkpoint) as backend:
        assert backend.meta.checkpoint == "RLDX-1-FT-RC365"
        assert backend.meta.provenance["normalisation"] == "q01/q99"
        pid = server_of(backend)
        first = backend.predict(asked(backend, session="a", episode=episode))
        again = backend.predict(asked(backend, session="b", episode=episode))
        assert first.metadata["noise_seed"] == again.metadata["noise_seed"]
        other = EpisodeKey(seed=0, suite="kitchen", task=0, episode=0, chunk=1)
        changed = backend.predict(asked(backend, session="a", episode=other))
        assert changed.metadata["noise_seed"] != first.metadata["noise_seed"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def server_of(backend):
    """Return the server's process id, which it answers with."""
    chunk = backend.predict(asked(backend, session="pid"))
    return int(chunk.actions[0, 7])


def test_a_server_of_ours_that_dies_is_said_with_its_last_words(child, checkpoint):
    with loaded(checkpoint) as backend:
        backend.predict(asked(backend))
        os.kill(server_of(backend), signal.SIGKILL)
        with pytest.raises(ProgramDied, match="RLDX server was killed by SIGKILL") as caught:
            backend.predict(asked(backend))
        assert "serving" in caught.value.detail
        with pytest.raises((ProgramDied, SessionGone)):
            backend.predict(asked(backend))


def test_a_server_that_cannot_load_is_said_with_its_last_words(child, tmp_path):
    broken = str(make_checkpoint(tmp_path / "broken"))
    with pytest.raises(ProgramDied, match="ended with exit code 3") as caught, loaded(broken):
        pass
    assert "no such weights" in caught.value.detail


def test_a_bad_checkpoint_is_refused_before_anything_is_started(child, tmp_path):
    with pytest.raises(BadCheckpoint), loaded(str(tmp_path)):
        pass


def test_a_server_of_ours_answers_nobody_else_and_shows_its_token_to_nobody(child, checkpoint):
    with loaded(checkpoint) as backend:
        pid = server_of(backend)
        (where,) = listeners(pid)
        with RldxClient(f"tcp://{where.address}:{where.port}", timeout_s=30.0) as stranger:
            for ask in (lambda: stranger.reset("pid"), lambda: stranger.ping(timeout_s=30.0)):
                with pytest.raises(PredictionFailed, match="Unauthorized"):
                    ask()
        chunk = backend.predict(asked(backend, session="pid"))
        assert chunk.actions[0, 0] == 2, "its memory was left alone"
        token = backend._server._token
        assert len(token) == 32
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert token not in repr(backend.meta)


def test_the_token_goes_from_the_environment_to_upstreams_server():
    assert seeded(UpstreamServer, print, "secret")(print).api_token == "secret"
    assert seeded(UpstreamServer, print)(print).api_token is None


class UpstreamServer:
    """Registers endpoints in its constructor, as upstream's does."""

    def __init__(self, policy, api_token=None):
        self.api_token = api_token
        self.endpoints = {}
        self.register_endpoint("ping", lambda: "ok", requires_input=False)
        self.register_endpoint("get_action", policy)

    def register_endpoint(self, name, handler, requires_input=True):
        self.endpoints[name] = (handler, requires_input)


def test_a_seed_goes_to_the_generator_and_the_rest_to_the_policy():
    seeds, asked_for = [], []
    server = seeded(UpstreamServer, seeds.append)(lambda *given: asked_for.append(given))
    predict, _ = server.endpoints["get_action"]
    predict(observation={"a": 1}, options={"session_ids": ["s"], "noise_seed": 7})
    predict({"b": 2}, {"session_ids": ["s"]})
    predict({"c": 3})
    assert seeds == [7]
    assert asked_for == [
        ({"a": 1}, {"session_ids": ["s"]}),
        ({"b": 2}, {"session_ids": ["s"]}),
        ({"c": 3}, None),
    ]
    assert server.endpoints["ping"][1] is False
