# SPDX-License-Identifier: Apache-2.0
"""The backend in front of a server without a model."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager

import numpy as np
import pytest
from lingbot_fake import fake_backend
from lingbot_server import METADATA, answer, chunk_of, lingbot_server

from rpent_box.backends.lingbot import BACKEND
from rpent_box.backends.lingbot.model import load
from rpent_box.backends.lingbot.options import LingbotOptions
from rpent_box.backends.noise import noise_seed
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.spaces import ROBOTWIN_EEF16
from rpent_box.errors import (
    BadActions,
    BadOption,
    DeadlineExceeded,
    IncompatibleWorker,
    PredictionFailed,
    UsageError,
    WorkerFailed,
)
from rpent_box.options import parse_options, to_arguments
from rpent_box.worker.backend import LoadContext, PredictionInput
from rpent_box.worker.needs import needs_of
from rpent_box.worker.warm_up import blank_observation


def context(**more):
    facts = {"platform": "robotwin", "checkpoint": None, "threads": 1, "say": lambda _: None}
    return LoadContext(**{**facts, **more})


@contextmanager
def borrowing(fake, **more):
    timeouts = {"connect_timeout_s": 5.0, "reply_timeout_s": 5.0}
    backend = load(LingbotOptions(service=fake.url, **{**timeouts, **more}), context())
    try:
        yield backend
    finally:
        backend.close()


def asked(backend, *, session="a", seed=0, **more):
    shown = blank_observation(backend.meta, (48, 64, 3))
    for vector in shown.proprio.values():
        vector[:] = seed
    return PredictionInput(observation=shown, session=session, **more)


def episode(chunk=0):
    return EpisodeKey(seed=1, suite="robotwin", task=2, episode=3, chunk=chunk)


def test_a_borrowed_server_answers_and_outlives_the_worker():
    with lingbot_server() as fake:
        with borrowing(fake, execute_steps=20) as backend:
            chunk = backend.predict(asked(backend))
            check_actions(chunk, backend.meta)
            assert chunk.timings_s.keys() == {"encode", "infer", "decode"}
            wanted = chunk_of(fake.questions[-1])[:20]
            np.testing.assert_allclose(chunk.actions, wanted, atol=1e-6)
        with borrowing(fake) as another:
            another.predict(asked(another))


def test_its_meta_says_what_is_known_and_what_is_not():
    with lingbot_server() as fake, borrowing(fake, execute_steps=20) as backend:
        meta = backend.meta
        assert (meta.kind, meta.backend) == (BACKEND.kind, BACKEND.name)
        assert meta.control == control_spec(ROBOTWIN_EEF16)
        assert (meta.action_horizon, meta.execute_steps) == (50, 20)
        assert meta.camera_roles == ("head", "left_wrist", "right_wrist")
        assert sum(meta.proprio_schema.values()) == 16
        assert not meta.uses_sessions
        assert meta.prediction_timeout_s == 5.0 + 5.0 + 30.0
        assert fake.url in meta.checkpoint
        assert "not repeatable" in meta.provenance["noise"]


def test_a_borrowed_server_is_sent_nothing_that_its_protocol_does_not_have():
    with lingbot_server() as fake, borrowing(fake) as backend:
        chunk = backend.predict(asked(backend, episode=episode()))
        assert fake.questions[-1].keys() == {
            *(f"observation.images.cam_{name}" for name in ("high", "left_wrist", "right_wrist")),
            *("observation.state", "task"),
        }
        assert chunk.metadata == {}


def test_a_server_of_ours_is_told_the_seed_of_each_moment():
    with fake_backend("robotwin") as backend:
        first, second, again = (
            backend.predict(asked(backend, episode=episode(n))) for n in (0, 1, 0)
        )
        assert first.metadata == {"noise_seed": noise_seed(42, episode(0))}
        np.testing.assert_array_equal(first.actions, again.actions)
        assert np.abs(first.actions - second.actions).max() > 1e-3


@pytest.mark.parametrize(
    ("robo_name", "frame"),
    [("", {"reset": True}), ("franka", {"reset": True, "robo_name": "franka"})],
)
def test_a_reset_is_told_to_the_server(robo_name, frame):
    with lingbot_server() as fake, borrowing(fake, robo_name=robo_name) as backend:
        backend.reset("a")
        assert fake.questions == [frame]


def test_one_connection_serves_all_sessions():
    with lingbot_server() as fake, borrowing(fake) as backend:
        alone = [backend.predict(asked(backend, session="a", seed=n)).actions for n in range(3)]
        for n in range(3):
            backend.predict(asked(backend, session="b", seed=9))
            backend.reset("b")
            backend.drop("b")
            mixed = backend.predict(asked(backend, session="a", seed=n)).actions
            np.testing.assert_array_equal(mixed, alone[n])
        assert fake.connections == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"runtime": "openpi"}, "runtime is 'openpi', wanted 'lingbotvla'"),
        ({"policy_name": "robotwin"}, "policy_name is 'robotwin', wanted 'robotwin_eef'"),
        ({"camera_order": ["cam_left_wrist", "cam_high", "cam_right_wrist"]}, "camera_order is"),
        ({"state_layout": "qpos14"}, "state_layout is 'qpos14', wanted 'eef16'"),
        ({"action_layout": None}, "action_layout is None, wanted 'eef16'"),
        ({"camera_order": np.arange(3)}, "camera_order is array([0, 1, 2]), wanted ['cam_high'"),
        ({"policy_name": "x" * 10_000}, "xxx…, wanted 'robotwin_eef'"),
        ({"use_length": 0}, "use_length 0 steps"),
        ({"use_length": 51}, "use_length 51 steps"),
        ({"use_length": "50"}, "use_length '50' steps"),
        ({"use_length": True}, "use_length True steps"),
        ({"use_length": 49}, "answers with 49 steps, and 50 shall be"),
    ],
)
def test_a_server_of_another_model_is_refused(change, complaint):
    with (
        lingbot_server(metadata={**METADATA, **change}) as fake,
        pytest.raises(IncompatibleWorker) as caught,
    ):
        load(LingbotOptions(service=fake.url), context())
    assert complaint in caught.value.message
    assert len(caught.value.message) < 1000


def test_a_server_that_says_nothing_about_itself_is_refused_entry_by_entry():
    with (
        lingbot_server(metadata={}) as fake,
        pytest.raises(IncompatibleWorker, match="runtime is 'missing'.*action_layout is"),
    ):
        load(LingbotOptions(service=fake.url), context())


def test_a_greeting_may_say_more():
    with lingbot_server(metadata={**METADATA, "revision": "abc"}) as fake, borrowing(fake):
        pass


def test_no_server_is_a_failed_start_that_says_what_to_type():
    with lingbot_server() as fake:
        url = fake.url
    with pytest.raises(WorkerFailed, match="there is no LingBot server") as caught:
        load(LingbotOptions(service=url), context())
    assert "/healthz" in caught.value.hint


@pytest.mark.parametrize(
    "action",
    [
        chunk_of({})[:49],
        chunk_of({})[:, :15],
        chunk_of({}).astype(np.int64),
        np.full((50, 16), np.nan, np.float32),
        None,
        [[0.0] * 16] * 50,
    ],
    ids=["short", "narrow", "integers", "nan", "none", "a list"],
)
def test_an_unusable_answer_is_refused_and_the_next_one_is_not(action):
    answers = [{"action": action}, {"action": chunk_of({})}]
    with lingbot_server(lambda _: answers.pop(0)) as fake, borrowing(fake) as backend:
        with pytest.raises(BadActions):
            backend.predict(asked(backend))
        check_actions(backend.predict(asked(backend)), backend.meta)
        assert fake.connections == 1


def test_an_answer_without_actions_says_what_it_has():
    with (
        lingbot_server(lambda _: {"actions": chunk_of({})}) as fake,
        borrowing(fake) as backend,
        pytest.raises(BadActions, match="only actions, server_timing"),
    ):
        backend.predict(asked(backend))


def test_after_a_failure_the_next_question_finds_a_new_connection():
    replies = [RuntimeError("no"), None, "raised in text", b"\xc1"]

    def infer(question):
        if not replies:
            return answer(question)
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    with lingbot_server(infer) as fake, borrowing(fake) as backend:
        for _ in range(4):
            with pytest.raises(PredictionFailed):
                backend.predict(asked(backend))
        check_actions(backend.predict(asked(backend)), backend.meta)
        assert fake.connections == 5


def test_a_late_answer_is_never_taken_for_the_next_one():
    delays = [0.6]

    def infer(question):
        if delays:
            time.sleep(delays.pop())
        return answer(question)

    with lingbot_server(infer) as fake, borrowing(fake, reply_timeout_s=0.3) as backend:
        with pytest.raises(DeadlineExceeded):
            backend.predict(asked(backend, seed=1))
        chunk = backend.predict(asked(backend, seed=2))
        wanted = chunk_of(fake.questions[-1])
        np.testing.assert_allclose(chunk.actions, wanted, atol=1e-6)


def test_a_server_that_was_exchanged_for_another_model_is_refused_before_it_is_asked():
    with lingbot_server() as fake, borrowing(fake) as backend:
        backend.predict(asked(backend))
        fake.metadata = {**METADATA, "state_layout": "qpos14"}
        fake.infer = lambda _: None
        with pytest.raises(PredictionFailed):
            backend.predict(asked(backend))
        questions = len(fake.questions)
        for _ in range(2):
            with pytest.raises(IncompatibleWorker, match="qpos14"):
                backend.predict(asked(backend))
        assert len(fake.questions) == questions


def test_a_server_that_was_restarted_between_episodes_is_found_again():
    with lingbot_server() as fake:
        port = fake.port
        backend = load(LingbotOptions(service=fake.url, connect_timeout_s=5.0), context())
    with lingbot_server(port=port):
        backend.reset("a")
        check_actions(backend.predict(asked(backend)), backend.meta)
        backend.close()


def test_options_of_a_request_are_refused():
    with fake_backend("robotwin") as backend, pytest.raises(BadOption, match="temperature"):
        backend.predict(asked(backend, options={"temperature": 1.0}))


def test_closing_twice_is_fine():
    with fake_backend("robotwin") as backend:
        backend.close()
        backend.close()


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"platform": "libero"}, "no adapter for the platform libero"),
        ({}, "neither a checkpoint nor a server"),
    ],
)
def test_what_cannot_be_loaded_is_refused_before_anything_is_started(more, complaint):
    with pytest.raises(BadOption, match=complaint):
        load(LingbotOptions(), context(**more))


def test_a_server_and_a_checkpoint_exclude_each_other():
    options = LingbotOptions(service="ws://127.0.0.1:1")
    with pytest.raises(UsageError, match="--service excludes --checkpoint: .*ws://127.0.0.1:1"):
        needs_of(BACKEND, options, checkpoint="/weights", device=None)


def test_options_travel_through_the_command_line():
    options = LingbotOptions(service="ws://127.0.0.1:9000", execute_steps=25, seed=7)
    assert parse_options(LingbotOptions, to_arguments(options), program="test") == options


@pytest.mark.parametrize(
    "words",
    [
        *(["--execute-steps=0"], ["--execute-steps=51"], ["--seed=-1"]),
        *(["--reply-timeout-s=0"], ["--reply-timeout-s=inf"], ["--connect-timeout-s=nan"]),
        ["--start-timeout-s=86401"],
    ],
)
def test_options_out_of_range_are_refused(words):
    with pytest.raises(BadOption):
        parse_options(LingbotOptions, words, program="test")


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="websockets")
