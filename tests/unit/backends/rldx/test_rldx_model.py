# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from rldx_fake import asked, context, loaded, observation, served
from rldx_native_server import ACTION, KITCHEN_VIDEO, native_server, pack
from rldx_parts import PAST

from rpent_box.backends.rldx.loading import load
from rpent_box.backends.rldx.names import PROPRIO
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.contracts.checks import check_actions
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.fit import explain_mismatch
from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.spaces import ROBOCASA_12
from rpent_box.errors import (
    BadActions,
    BadObservation,
    BadOption,
    DeadlineExceeded,
    IncompatibleWorker,
    PeerGone,
    PredictionFailed,
    SessionGone,
    WorkerFailed,
)


def count(chunk):
    return int(chunk.actions[0, 0])


def sent(rldx, place=-1):
    """Return the options of a prediction as the server received them."""
    return rldx.server.asked("get_action")[place]["data"]["options"]


def spoilt(name, change):
    """Return a misbehaviour: one part of the next answer is changed."""

    def answer(endpoint, sound):
        if endpoint == "get_action":
            change(sound[0][name])
        return pack(sound)

    return answer


def test_a_chunk_is_the_executed_prefix_of_what_the_meta_promises():
    with served() as rldx:
        chunk = rldx.backend.predict(asked(rldx.backend, 40))
        check_actions(chunk, rldx.backend.meta)
        assert chunk.actions.shape == (8, 12)
        assert chunk.actions[:, 4].tolist() == list(range(8))
        assert chunk.actions[0, 1] == 40.0
        assert chunk.actions[:2, 6].tolist() == [1.0, -1.0]
        assert set(chunk.timings_s) == {"encode", "infer", "decode"}


def test_each_session_has_its_own_memory_at_the_server():
    with served() as rldx:
        counts = [count(rldx.backend.predict(asked(rldx.backend, session=s))) for s in "abaab"]
        assert counts == [1, 1, 2, 3, 2]
        rldx.backend.reset("a")
        assert [count(rldx.backend.predict(asked(rldx.backend, session=s))) for s in "ab"] == [1, 3]


def test_a_reset_names_exactly_its_own_session():
    with served() as rldx:
        for session in "ab":
            rldx.backend.predict(asked(rldx.backend, session=session))
        rldx.backend.reset("a")
        rldx.backend.drop("b")
        resets = [request["data"] for request in rldx.server.asked("reset")]
        names = [sent(rldx, place)["session_ids"] for place in (0, 1)]
        assert resets == [{"options": {"session_ids": name}} for name in names]
        assert rldx.model.memory == {}


def test_the_first_prediction_of_an_episode_says_so():
    with served() as rldx:
        rldx.backend.reset("mine")
        for _ in range(2):
            rldx.backend.predict(asked(rldx.backend))
        rldx.backend.reset("mine")
        rldx.backend.predict(asked(rldx.backend))
        flags = [request["data"]["options"] for request in rldx.server.asked("get_action")]
        assert [options["reset_memory"] for options in flags] == [[True], [False], [True]]


def test_two_workers_that_borrow_one_server_never_share_a_session():
    with served() as rldx, loaded(rldx.server) as other:
        rldx.backend.predict(asked(rldx.backend, session="warm-up"))
        other.predict(asked(other, session="warm-up"))
        assert sorted(rldx.model.memory.values()) == [1, 1]
        other.reset("warm-up")
        assert len(rldx.model.memory) == 1


def test_dropping_a_session_frees_it_at_the_server_and_an_unknown_one_asks_nothing():
    with served() as rldx:
        rldx.backend.predict(asked(rldx.backend))
        rldx.backend.drop("mine")
        rldx.backend.drop("mine")
        rldx.backend.drop("never seen")
        assert rldx.model.memory == {}
        assert len(rldx.server.asked("reset")) == 1


def test_closing_frees_what_a_borrowed_server_remembers_and_leaves_it_running():
    with native_server() as server:
        with loaded(server) as backend:
            for session in "ab":
                backend.predict(asked(backend, session=session))
            assert len(server.model.memory) == 2
            backend.close()
        assert server.model.memory == {}
        assert not [request for request in server.requests if request["endpoint"] == "kill"]
        with loaded(server) as again:
            assert count(again.predict(asked(again))) == 1


@pytest.mark.parametrize("silent", [True, False])
def test_closing_takes_no_longer_than_a_goodbye_when_the_server_is_gone(silent):
    go_on = threading.Event()
    with native_server() as server, loaded(server) as backend:
        for session in "abc":
            backend.predict(asked(backend, session=session))
        if silent:
            server.misbehave = lambda _, answer: go_on.wait(30.0) and pack(answer)
        else:
            server.close()
        began = time.monotonic()
        backend.close()
        backend.close()
        took_s = time.monotonic() - began
        go_on.set()
        assert took_s < 10.0, "thirty seconds is what one answer may take"


@pytest.mark.parametrize("name", list(ACTION))
def test_a_value_that_is_no_number_is_refused_and_the_session_goes_on(name):
    with served() as rldx:
        rldx.server.misbehave = spoilt(name, lambda part: part.__setitem__((0, -1, -1), np.nan))
        with pytest.raises(BadActions, match="nan"):
            rldx.backend.predict(asked(rldx.backend))
        rldx.server.misbehave = None
        chunk = rldx.backend.predict(asked(rldx.backend))
        assert count(chunk) == 1, "the episode still begins here"


def test_a_short_answer_is_refused():
    def short(endpoint, answer):
        if endpoint != "get_action":
            return pack(answer)
        return pack([{name: part[:, :15] for name, part in answer[0].items()}, answer[1]])

    with served() as rldx:
        rldx.server.misbehave = short
        with pytest.raises(BadActions, match="at least 16"):
            rldx.backend.predict(asked(rldx.backend))


def test_after_an_unanswered_question_a_session_must_be_reset():
    with served(options={"timeout_s": 1.0}) as rldx:
        for session in "ab":
            rldx.backend.predict(asked(rldx.backend, session=session))
        go_on = threading.Event()
        rldx.server.misbehave = lambda _, answer: go_on.wait(30.0) and pack(answer)
        with pytest.raises(DeadlineExceeded):
            rldx.backend.predict(asked(rldx.backend, session="a"))
        go_on.set()
        with pytest.raises(SessionGone, match="what it remembers of it is not known") as caught:
            rldx.backend.predict(asked(rldx.backend, session="a"))
        assert "Reset" in caught.value.hint
        assert count(rldx.backend.predict(asked(rldx.backend, session="b"))) == 2
        rldx.backend.reset("a")
        assert count(rldx.backend.predict(asked(rldx.backend, session="a"))) == 1


def test_a_refusal_of_the_server_leaves_its_memory_unknown_too():
    with served() as rldx:
        rldx.backend.predict(asked(rldx.backend))
        rldx.server.misbehave = lambda *_: pack({"error": "CUDA error"})
        with pytest.raises(PredictionFailed, match="CUDA error"):
            rldx.backend.predict(asked(rldx.backend))
        rldx.server.misbehave = None
        with pytest.raises(SessionGone):
            rldx.backend.predict(asked(rldx.backend))


def test_a_server_that_was_started_again_remembers_nobody():
    with native_server() as first, loaded(first) as backend:
        backend.predict(asked(backend, session="old"))
        port = first.port
        first.close()
        with native_server(port=port):
            with pytest.raises(SessionGone):
                backend.predict(asked(backend, session="old"))
            assert count(backend.predict(asked(backend, session="new"))) == 1
            backend.reset("old")
            assert count(backend.predict(asked(backend, session="old"))) == 1


def test_a_dead_server_is_said_at_once():
    with native_server() as server, loaded(server) as backend:
        backend.predict(asked(backend))
        server.close()
        with pytest.raises(PeerGone):
            backend.predict(asked(backend))
        with pytest.raises(PeerGone):
            backend.reset("mine")


def test_a_reset_that_failed_leaves_no_session_to_go_on_with():
    with served() as rldx:
        rldx.backend.predict(asked(rldx.backend))
        rldx.server.misbehave = lambda *_: pack({"error": "no"})
        with pytest.raises(PredictionFailed):
            rldx.backend.reset("mine")
        rldx.server.misbehave = None
        with pytest.raises(SessionGone):
            rldx.backend.predict(asked(rldx.backend))
        rldx.backend.reset("mine")
        assert count(rldx.backend.predict(asked(rldx.backend))) == 1


def test_what_is_refused_before_it_is_sent_changes_nothing():
    with served() as rldx:
        rldx.backend.predict(asked(rldx.backend))
        with pytest.raises(BadOption):
            rldx.backend.predict(asked(rldx.backend, options={"session_ids": "theirs"}))
        with pytest.raises(BadOption, match="has no effect"):
            rldx.backend.predict(asked(rldx.backend, options={"rtc_prefix_len": 2}))
        small = asked(rldx.backend)
        small.observation.images["wrist"] = np.zeros((64, 64, 3), np.uint8)
        with pytest.raises(BadObservation):
            rldx.backend.predict(small)
        assert len(rldx.server.requests) == 1
        assert count(rldx.backend.predict(asked(rldx.backend))) == 2


def test_a_prefix_is_the_tail_of_the_sessions_own_last_chunk_in_model_units():
    names = tuple(reversed(ACTION))
    changed = {"action": (list(range(16)), list(names))}
    guided = {"rtc": "guided", "rtc_delay": 2}
    with served(options=guided, **changed) as rldx:
        for session, level in (("a", 10), ("b", 200)):
            first = asked(rldx.backend, level, session=session, options={"rtc_prefix_len": 3})
            rldx.backend.predict(first)
            assert "action_prefix" not in sent(rldx), "there is no chunk to continue yet"
        chunk = rldx.backend.predict(
            asked(rldx.backend, session="a", options={"rtc_prefix_len": 3})
        )
        assert sent(rldx)["rtc_prefix_len"] == chunk.metadata["rtc_prefix_len"] == 3
        prefix = sent(rldx)["action_prefix"]
        assert (prefix.shape, prefix.dtype) == ((3, 12), np.dtype(np.float32))
        by_name = dict(zip(names, np.split(prefix, [1, 5, 6, 9], axis=1), strict=True))
        assert by_name["end_effector_rotation"][:, 1].tolist() == [8.0, 9.0, 10.0]
        assert (by_name["end_effector_position"][:, 1] == 10.0).all()
        assert by_name["gripper_close"][:, 0] == pytest.approx([0.5, 0.49, 0.5])


def test_without_a_length_the_server_continues_its_own_chunk():
    with served(options={"rtc": "guided", "rtc_delay": 2}) as rldx:
        for _ in range(2):
            rldx.backend.predict(asked(rldx.backend))
        assert set(sent(rldx)) == {"reset_memory", "session_ids"}


def test_a_reset_forgets_the_chunk_too():
    with served(options={"rtc": "guided", "rtc_delay": 2}) as rldx:
        rldx.backend.predict(asked(rldx.backend))
        rldx.backend.reset("mine")
        rldx.backend.predict(asked(rldx.backend, options={"rtc_prefix_len": 2}))
        assert "action_prefix" not in sent(rldx)


def test_a_borrowed_server_is_sent_no_seed():
    episode = EpisodeKey(seed=0, suite="kitchen", task=0, episode=0, chunk=0)
    with served() as rldx:
        rldx.backend.predict(asked(rldx.backend, episode=episode))
        assert "noise_seed" not in sent(rldx)
        assert "two runs differ" in rldx.backend.meta.provenance["noise"]


def test_earlier_frames_are_the_platforms_where_it_has_them():
    with served(deltas=[-steps for steps in PAST]) as rldx:
        assert len(rldx.backend.meta.camera_roles) == 12
        chunk = rldx.backend.predict(asked(rldx.backend, 10))
        # Roles in the meta's order are 10, 11, …: left now is 10, left 6 steps ago 19.
        assert chunk.actions[0, 1] == 10.0
        assert chunk.actions[0, 2] == 19.0


def test_earlier_frames_may_be_those_of_the_sessions_own_predictions():
    history = {"history": "predictions"}
    with served(options=history, deltas=[-steps for steps in PAST]) as rldx:
        backend = rldx.backend
        assert backend.meta.camera_roles == ("agentview_left", "agentview_right", "wrist")
        oldest = [
            backend.predict(asked(backend, level, session=session)).actions[0, 2]
            for session, level in (("a", 10), ("b", 100), ("a", 20), ("b", 110), ("a", 30))
        ]
        assert oldest == [10.0, 100.0, 10.0, 100.0, 20.0]
        backend.reset("a")
        assert backend.predict(asked(backend, 40, session="a")).actions[0, 2] == 40.0
        assert backend.predict(asked(backend, 120, session="b")).actions[0, 2] == 110.0


def test_frames_of_a_prediction_that_came_to_nothing_are_not_remembered():
    with served(options={"history": "predictions"}, deltas=[-8, 0]) as rldx:
        backend = rldx.backend
        backend.predict(asked(backend, 10))
        small = asked(backend, 50)
        small.observation.images["wrist"] = np.zeros((64, 64, 3), np.uint8)
        with pytest.raises(BadObservation):
            backend.predict(small)
        rldx.server.misbehave = spoilt("base_motion", lambda part: part.fill(np.nan))
        with pytest.raises(BadActions):
            backend.predict(asked(backend, 60))
        rldx.server.misbehave = None
        assert backend.predict(asked(backend, 20)).actions[0, 2] == 10.0


def test_a_platform_that_does_not_show_earlier_frames_is_refused_unless_told_otherwise():
    platform = PlatformMeta(
        name="robocasa",
        controls=(control_spec(ROBOCASA_12),),
        camera_roles=("agentview_left", "agentview_right", "wrist"),
        image_size=(256, 256),
        proprio_schema={**dict(PROPRIO.values()), "joint_positions": 7},
    )
    with served(deltas=[-2, 0]) as rldx:
        (reason,) = explain_mismatch(rldx.backend.meta, platform)
        assert "wrist_2_steps_ago" in reason
    with served(options={"history": "predictions"}, deltas=[-2, 0]) as rldx:
        assert explain_mismatch(rldx.backend.meta, platform) == []


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("video", [None, KITCHEN_VIDEO])
def test_a_borrowed_server_may_be_wrapped_or_not_and_of_either_robocasa(wrapped, video):
    changed = {"video": video, "instruction": "annotation.human.action.task"} if video else {}
    with served(wrapped=wrapped, **changed) as rldx:
        chunk = rldx.backend.predict(asked(rldx.backend, 33))
        assert (count(chunk), chunk.actions[0, 1]) == (1, 33.0)
        data = rldx.server.asked("get_action")[-1]["data"]["observation"]
        assert ("video" in data) is not wrapped


def test_what_was_tried_while_loading_is_forgotten_by_the_server():
    with native_server() as server, loaded(server):
        assert server.model.memory == {}
        assert len(server.model.seen) == 1


def test_what_was_tried_is_forgotten_also_where_the_server_was_too_slow():
    go_on = threading.Event()

    def slow(endpoint, answer):
        if endpoint == "get_action":
            go_on.wait(0.5)
        return pack(answer)

    with native_server() as server:
        server.misbehave = slow
        with pytest.raises(DeadlineExceeded), loaded(server, start_timeout_s=0.1):
            pass
        go_on.set()
        assert len(server.model.seen) == 1
        assert server.model.memory == {}


def test_a_server_of_another_robot_is_refused():
    refused = pytest.raises(IncompatibleWorker, match="ego_view")
    with native_server(video=("ego_view", "left_view")) as server, refused, loaded(server):
        pass


def test_a_server_that_refuses_what_is_shown_is_refused_with_its_words():
    with native_server() as server:
        server.policy.get_action = lambda **_: 1 / 0
        with pytest.raises(WorkerFailed, match="division by zero"), loaded(server):
            pass


def test_more_steps_than_a_chunk_has_are_refused():
    refused = pytest.raises(BadOption, match="do not fit into a chunk of 8 steps")
    with native_server(horizon=8) as server, refused, loaded(server, execute_steps=9):
        pass


def test_nothing_to_load_is_said_with_both_ways_out():
    with pytest.raises(BadOption, match="no built-in weights") as caught:
        load(RldxOptions(), context())
    assert "--checkpoint" in caught.value.hint
    assert "--service" in caught.value.hint


def test_a_token_is_read_from_its_file(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    with native_server(token="secret") as server:
        with loaded(server, token_file=str(token)) as backend:
            assert count(backend.predict(asked(backend))) == 1
        token.write_text("")
        with (
            pytest.raises(BadOption, match="holds no token"),
            loaded(server, token_file=str(token)),
        ):
            pass


def test_the_observation_is_left_as_it_was_shown():
    with served(options={"history": "predictions"}, deltas=[-2, 0]) as rldx:
        shown = observation(rldx.backend.meta)
        for array in (*shown.images.values(), *shown.proprio.values()):
            array.flags.writeable = False
        request = asked(rldx.backend)
        before = set(shown.images)
        rldx.backend.predict(type(request)(observation=shown, session="mine"))
        assert set(shown.images) == before
