# SPDX-License-Identifier: Apache-2.0
"""The protocol is strict: known routes, known fields, nothing else."""

import msgspec
import pytest

from rpent_box.contracts import messages as wire

REQUESTS = msgspec.msgpack.Decoder(wire.Request)
REPLIES = msgspec.msgpack.Decoder(wire.Reply)


def encode(body, **envelope):
    return msgspec.msgpack.encode({"id": 1, "timeout_s": 1.0, "body": body, **envelope})


def test_the_routes_are_the_reference_ones_and_the_workers_figures():
    routes = {
        kind.__struct_config__.tag
        for kind in wire.RequestBody.__args__  # type: ignore[attr-defined]
    }
    assert routes == {
        "hello",
        "healthz",
        "shutdown",
        "wam.get_model_meta",
        "wam.predict",
        "wam.reset",
        "vla.get_model_meta",
        "vla.predict",
        "vla.reset",
        "session.register",
        "session.close",
        "reset_session",
        "worker.figures",
    }


def test_a_request_survives_the_wire():
    request = wire.Request(
        id=7,
        timeout_s=2.5,
        body=wire.VlaPredict(
            instruction="pick up the bowl",
            embodiment="libero_7d",
            action_space="libero.osc_pose.delta.v1",
            proprio={"gripper_qpos": (0.5, -0.25)},
            payload=wire.Payload(
                slot=wire.SlotRef(segment="/rpent-box.1a2b3c4d.c", slot=1, sequence=4),
                tensors=(wire.TensorRef(name="primary", dtype="uint8", shape=(2, 2, 3)),),
            ),
            episode=wire.EpisodeKey(seed=7, suite="libero_spatial", task=0, episode=3, chunk=2),
            options={"steps": 5},
        ),
    )
    assert REQUESTS.decode(msgspec.msgpack.encode(request)) == request


@pytest.mark.parametrize(
    "message",
    [
        encode({"type": "healthz", "extra": 1}),
        encode({"type": "healthz"}, extra=1),
        encode({"type": "wam.forecast"}),
        encode({"type": "hello", "client": "c"}),
        encode({"type": "hello", "client": "c", "protocol": "1"}),
        b"\xc1",
        b"",
    ],
)
def test_anything_else_is_refused(message):
    with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
        REQUESTS.decode(message)


def test_sixteen_by_seven_actions_travel_in_under_600_bytes():
    reply = wire.Reply(id=1, body=wire.Predicted(actions=bytes(16 * 7 * 4), shape=(16, 7)))
    data = msgspec.msgpack.encode(reply)
    assert REPLIES.decode(data) == reply
    assert len(data) < 600
