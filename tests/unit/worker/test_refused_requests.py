# SPDX-License-Identifier: Apache-2.0
"""What a worker does not let through to its model."""

import math
import time

import numpy as np
import pytest
from fake_models import CONTROL, SPEC, FakeModel, observation
from msgspec.structs import replace
from running_service import LINKS, PATIENCE_S, overwrite_slots, running, wait_until

from rpent_box.contracts.faults import error_from
from rpent_box.contracts.messages import (
    NO_PAYLOAD,
    GetVlaMeta,
    Healthz,
    Payload,
    Request,
    Shutdown,
    VlaPredict,
    VlaReset,
    WamPredict,
)
from rpent_box.errors import (
    BadObservation,
    BadOption,
    IncompatibleWorker,
    ProtocolMismatch,
    StaleFrame,
    TransportError,
    WorkerBusy,
    WorkerError,
)
from rpent_box.transport.ring import describe
from rpent_box.transport.twin import Twin
from rpent_box.worker import reception
from rpent_box.worker.config import ServiceConfig
from rpent_box.worker.queue import LANE
from rpent_box.worker.service import Service


def predict_body(**changes):
    body = WamPredict(
        instruction="go",
        embodiment=CONTROL.embodiment,
        action_space=CONTROL.action_space,
        proprio={"eef_position": (0.1, 0.2, 0.3)},
        payload=NO_PAYLOAD,
    )
    return replace(body, **changes)


def frames(**changes):
    return {**observation().images, **changes}


def refused(error, match, body, tensors, *, link="shm", timeout_s=5.0):
    """Send one prediction that must not reach the model, then one that must."""
    model = FakeModel()
    with running(model, link=link) as worker:
        client = worker.client()
        channel = worker.channel()
        with pytest.raises(error, match=match):
            channel.request(body, timeout_s=timeout_s, tensors=tensors)
        assert model.seen == []
        client.predict(observation())
        assert len(model.seen) == 1


def test_another_action_space_is_refused():
    body = predict_body(action_space="robocasa.osc_pose_base.delta12.v1")
    refused(IncompatibleWorker, "moves libero_7d in libero.osc_pose.delta.v1", body, frames())


def test_another_embodiment_is_refused():
    refused(
        IncompatibleWorker, "the client moves a_dog", predict_body(embodiment="a_dog"), frames()
    )


@pytest.mark.parametrize("link", LINKS)
def test_a_missing_camera_is_refused(link):
    one = {"primary": frames()["primary"]}
    refused(BadObservation, "camera wrist is missing", predict_body(), one, link=link)


@pytest.mark.parametrize("link", LINKS)
def test_a_frame_of_floats_is_refused(link):
    wrong = frames(wrist=np.zeros((32, 48, 3), np.float32))
    refused(BadObservation, "camera wrist must be a uint8", predict_body(), wrong, link=link)


def test_a_frame_without_colours_is_refused():
    wrong = frames(wrist=np.zeros((32, 48), np.uint8))
    refused(BadObservation, "camera wrist must be RGB", predict_body(), wrong)


def test_a_missing_proprio_is_refused():
    refused(BadObservation, "eef_position is missing", predict_body(proprio={}), frames())


def test_a_proprio_of_another_length_is_refused():
    body = predict_body(proprio={"eef_position": (0.1, 0.2)})
    refused(BadObservation, r"shape \[2\]; the model wants \[3\]", body, frames())


def test_a_proprio_that_is_not_finite_is_refused():
    body = predict_body(proprio={"eef_position": (0.1, math.nan, 0.3)})
    refused(BadObservation, "not finite", body, frames())


def test_a_prediction_without_frames_is_refused():
    refused(BadObservation, "camera primary is missing", predict_body(), None)


def test_a_vla_request_to_a_world_action_model_is_refused():
    body = VlaPredict(
        instruction="go",
        embodiment=CONTROL.embodiment,
        action_space=CONTROL.action_space,
        proprio={"eef_position": (0.1, 0.2, 0.3)},
        payload=NO_PAYLOAD,
    )
    refused(IncompatibleWorker, "fake is a wam model; it was asked as a vla", body, frames())


@pytest.mark.parametrize("body", [GetVlaMeta(), VlaReset()])
def test_other_vla_requests_to_a_world_action_model_are_refused(body):
    with running(FakeModel()) as worker:
        worker.client()
        with pytest.raises(IncompatibleWorker, match="asked as a vla"):
            worker.channel().request(body, timeout_s=2.0)


@pytest.mark.parametrize("timeout_s", [math.nan, math.inf, 0.0, -1.0])
def test_a_timeout_that_never_ends_is_refused(timeout_s):
    model = FakeModel()
    with running(model, link="twin") as worker:
        worker.client()
        channel = worker.channel()
        channel._last_id += 1
        request = Request(id=channel._last_id, timeout_s=timeout_s, body=predict_body())
        channel._wire.send(request)
        with pytest.raises(BadOption, match="positive timeout"):
            _raise_reply(channel)
    assert model.seen == []


def test_a_stranger_is_told_to_say_hello_first():
    twin = Twin()
    service = Service(lambda _: FakeModel(), SPEC, twin.server, ServiceConfig())
    stranger = twin.dealer()
    stranger.send(Request(id=1, timeout_s=1.0, body=predict_body()))
    stranger.send(Request(id=2, timeout_s=1.0, body=Healthz()))
    for _ in range(2):
        service._turn()
    first, _ = stranger.receive(_soon())
    second, _ = stranger.receive(_soon())
    assert (first.id, first.body.code) == (1, ProtocolMismatch.code)
    assert (second.id, second.body.state) == (2, "starting")


def test_over_tcp_nobody_shuts_a_worker_down():
    with running(FakeModel(), link="tcp") as worker:
        client = worker.client()
        with pytest.raises(TransportError, match="not shut down over tcp"):
            worker.channel().request(Shutdown(), timeout_s=2.0)
        assert client.predict(observation()).actions.shape == (3, 7)


def test_a_slot_that_is_written_again_during_inference_gives_no_actions():
    model = FakeModel()
    with running(model) as worker:
        client = worker.client()
        client.predict(observation())
        model.started.clear()
        answer = worker.in_thread(lambda: client.predict(observation("wait")))
        assert model.started.wait(60.0)
        overwrite_slots(client)
        model.go_on.set()
        with pytest.raises(StaleFrame, match="wanted frame"):
            answer()


def test_a_slot_that_was_written_again_before_inference_does_not_reach_the_model():
    model = FakeModel()
    with running(model) as worker:
        busy, client = worker.client("busy"), worker.client("client")
        client.predict(observation())
        model.started.clear()
        first = worker.in_thread(lambda: busy.predict(observation("wait")))
        assert model.started.wait(60.0)
        second = worker.in_thread(lambda: client.predict(observation("late")))
        wait_until(lambda: worker.health().queued == 1)
        overwrite_slots(client)
        model.go_on.set()
        first()
        with pytest.raises(StaleFrame):
            second()
    assert "late" not in [seen.observation.instruction for seen in model.seen]


def _raise_reply(channel):
    reply, _ = channel._wire.receive(_soon())
    raise error_from(reply.body)


def _soon():
    return time.monotonic() + 2.0


def test_a_client_that_floods_is_refused_and_the_others_are_served():
    model = FakeModel()
    with running(model, link="tcp") as worker:
        flood, other = worker.channel("flood"), worker.client("other")
        seen = observation("wait")
        body = predict_body(instruction="wait", payload=Payload(tensors=describe(seen.images)))
        for number in range(1, LANE + 3):
            request = Request(id=100 + number, timeout_s=PATIENCE_S, body=body)
            flood._wire.send(request, list(seen.images.values()))
            if number == 1:
                assert model.started.wait(PATIENCE_S)
        # One is in flight, LANE wait, and the last is one too many.
        reply, _ = flood._wire.receive(time.monotonic() + PATIENCE_S)
        assert (reply.id, reply.body.code) == (100 + LANE + 2, WorkerBusy.code)
        answer = worker.in_thread(lambda: other.predict(observation()))
        model.go_on.set()
        assert answer().actions.shape == (3, 7)


def test_a_fault_in_the_worker_itself_is_told_and_ends_nothing(monkeypatch):
    with running(FakeModel()) as worker:
        client = worker.client()
        with monkeypatch.context() as broken:
            broken.setattr(reception, "observation_from", lambda *_: 1 / 0)
            with pytest.raises(WorkerError, match="ZeroDivisionError") as caught:
                client.predict(observation())
        assert "Traceback" in caught.value.detail
        assert client.predict(observation()).actions.shape == (3, 7)
