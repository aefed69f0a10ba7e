# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import msgspec
import numpy as np
import pytest
from answering_worker import PREDICT, answering, images, welcome

from rpent_box.contracts.messages import Fault, Predicted, Reply
from rpent_box.errors import DeadlineExceeded, PeerGone
from rpent_box.transport.twin import Twin


def test_the_twin_answers_as_a_worker_does() -> None:
    twin = Twin()
    with answering(twin.server), twin.client("a") as client:
        assert client.welcome == welcome()
        reply, future = client.request(PREDICT, timeout_s=5.0, tensors=images(4))
        assert isinstance(reply, Predicted)
        assert np.frombuffer(reply.actions, np.float32).tolist() == [4, 5]
        assert (future["wrist"] == 250).all()


def test_the_twin_refuses_unknown_fields() -> None:
    twin = Twin()
    with answering(twin.server):
        dealer = twin.dealer()
        dealer.send_raw(
            msgspec.msgpack.encode({"id": 4, "timeout_s": 1.0, "body": {"type": "healthz", "x": 1}})
        )
        reply, _ = dealer.receive(time.monotonic() + 5.0)
        assert isinstance(reply, Reply)
        assert reply.id == 4
        assert isinstance(reply.body, Fault)
        assert "unknown field `x`" in reply.body.message


def test_the_twin_keeps_deadlines_and_notices_an_end() -> None:
    twin = Twin()
    with pytest.raises(DeadlineExceeded, match="no hello came back"):
        twin.client(timeout_s=0.05)
    with answering(twin.server):
        client = twin.client()
    with pytest.raises(PeerGone):
        client.request(PREDICT, timeout_s=5.0)
    with pytest.raises(PeerGone):
        twin.client()


def test_what_a_client_changes_after_sending_does_not_show() -> None:
    twin = Twin()
    dealer = twin.dealer()
    frame = np.ones(4, np.uint8)
    dealer.send_raw(b"\xc1", [frame])
    frame[:] = 2
    assert bytes(twin.router._inbox.get_nowait()[1][1][0]) == b"\1\1\1\1"  # type: ignore[index]
