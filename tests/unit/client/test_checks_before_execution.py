# SPDX-License-Identifier: Apache-2.0
"""What a client refuses of a worker that goes wrong, before anyone could execute it.

The worker here answers whatever the test says: a real one refuses these itself.
"""

import math
import threading
import time

import numpy as np
import pytest
from fake_models import META, FakeModel, observation
from running_service import overwrite_slots, running

from rpent_box.client.model_client import ModelClient
from rpent_box.contracts.messages import (
    Done,
    GetWamMeta,
    Hello,
    Meta,
    Payload,
    Predicted,
    Reply,
    SlotRef,
    TensorRef,
    Welcome,
)
from rpent_box.errors import (
    BadActions,
    BadObservation,
    DeadlineExceeded,
    ProtocolMismatch,
    StaleFrame,
    TransportError,
)
from rpent_box.transport.twin import Twin
from rpent_box.version import PROTOCOL_VERSION

GOOD = np.arange(21, dtype=np.float32).reshape(3, 7)


def predicted(actions=GOOD, **changes):
    fields = {"actions": actions.tobytes(), "shape": actions.shape, **changes}
    return Predicted(**fields)


class ScriptedWorker:
    """Welcomes, gives its meta, and then answers predictions with what it was told."""

    def __init__(self, *answers, delay_s=0.0):
        self.twin = Twin()
        self.asked = []
        self._answers = list(answers)
        self._delay_s = delay_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return ModelClient(self.twin.client(), prediction_timeout_s=0.5)

    def __exit__(self, *_):
        self._end.set()
        self._thread.join(5.0)
        self.twin.server.close()

    def _run(self):
        while not self._end.is_set():
            incoming = self.twin.server.receive(0.02)
            if incoming is not None:
                request = incoming.request
                reply = Reply(id=request.id, body=self._answer(request.body))
                self.twin.server.send(incoming.connection, reply)

    def _answer(self, body):
        if isinstance(body, Hello):
            return Welcome(
                protocol=PROTOCOL_VERSION, backend="fake", kind="wam", state="ready", version="0"
            )
        if isinstance(body, GetWamMeta):
            return Meta(meta=META)
        self.asked.append(body)
        time.sleep(self._delay_s)
        return self._answers.pop(0)


def refused(answer, error, match):
    """The scripted answer is refused, and the same client then takes a good one."""
    with ScriptedWorker(answer, predicted()) as client:
        with pytest.raises(error, match=match):
            client.predict(observation())
        np.testing.assert_array_equal(client.predict(observation()).actions, GOOD)


def spoilt(row, column, value):
    actions = GOOD.copy()
    actions[row, column] = value
    return actions


def test_a_good_answer_is_taken_as_it_is():
    with ScriptedWorker(predicted(value=0.5, metadata={"seed": 3})) as client:
        chunk = client.predict(observation())
    np.testing.assert_array_equal(chunk.actions, GOOD)
    assert (chunk.actions.dtype, chunk.actions.flags.writeable) == (np.float32, True)
    assert (chunk.value, chunk.metadata, chunk.future_observation) == (0.5, {"seed": 3}, None)


def test_nan_is_refused():
    refused(predicted(spoilt(1, 6, math.nan)), BadActions, "nan for gripper in step 1")


def test_infinity_is_refused():
    refused(predicted(spoilt(2, 0, -math.inf)), BadActions, "-inf for delta_x in step 2")


def test_a_wrong_shape_is_refused():
    refused(predicted(GOOD[:, :6].copy()), BadActions, r"shape \[3, 6\]; wanted \[3, 7\]")


def test_a_wrong_length_is_refused():
    refused(predicted(GOOD[:2].copy()), BadActions, "returned 2 steps; its meta promises 3")


def test_too_many_steps_are_refused():
    refused(predicted(np.zeros((4, 7), np.float32)), BadActions, "returned 4 steps")


def test_a_shape_that_its_bytes_do_not_fill_is_refused():
    refused(predicted(shape=(3, 8)), BadActions, "84 bytes of actions")


def test_a_negative_shape_is_refused():
    refused(predicted(shape=(-3, -7)), BadActions, "84 bytes of actions")


def test_a_value_that_is_not_finite_is_refused():
    refused(predicted(value=math.nan), BadActions, "returned the value nan")


def test_an_answer_to_another_question_is_refused():
    refused(Done(), ProtocolMismatch, "answered with Done")


def test_a_future_frame_in_a_foreign_segment_is_refused():
    payload = Payload(
        slot=SlotRef(segment="/somebody.elses", slot=0, sequence=2),
        tensors=(TensorRef(name="primary", dtype="uint8", shape=(2, 2, 3)),),
    )
    refused(predicted(payload=payload), TransportError, "outside this box")


def test_a_late_reply_is_refused_and_never_taken_for_the_next():
    late = predicted(np.full((3, 7), 99, np.float32))
    worker = ScriptedWorker(late, predicted(), delay_s=0.3)
    with worker as client:
        client.prediction_timeout_s = 0.1
        with pytest.raises(DeadlineExceeded):
            client.predict(observation())
        client.prediction_timeout_s = 5.0
        np.testing.assert_array_equal(client.predict(observation()).actions, GOOD)


def test_a_stale_slot_is_refused():
    model = FakeModel()
    with running(model) as worker:
        client = worker.client()
        client.predict(observation())
        model.started.clear()
        answer = worker.in_thread(lambda: client.predict(observation("wait")))
        assert model.started.wait(60.0)
        overwrite_slots(client)
        model.go_on.set()
        with pytest.raises(StaleFrame):
            answer()


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda o: o.images.pop("wrist"), "camera wrist is missing"),
        (lambda o: o.images.update(wrist=o.images["wrist"][::-1]), "not contiguous"),
        (lambda o: o.images.update(wrist=o.images["wrist"] / 255), "must be a uint8"),
        (lambda o: o.proprio.pop("eef_position"), "eef_position is missing"),
        (lambda o: o.proprio.update(eef_position=np.ones(3)), "must be a float32"),
        (lambda o: o.proprio["eef_position"].fill(np.nan), "not finite"),
    ],
)
def test_a_bad_observation_is_not_even_sent(spoil, match):
    worker = ScriptedWorker()
    with worker as client:
        bad = observation()
        spoil(bad)
        with pytest.raises(BadObservation, match=match):
            client.predict(bad)
    assert worker.asked == []


def test_an_answer_that_lay_there_while_the_client_was_stopped_is_late():
    with ScriptedWorker(predicted(), predicted()) as client:
        ask = client._channel.request

        def stopped_meanwhile(*words, **more):
            answer = ask(*words, **more)
            time.sleep(client.prediction_timeout_s)
            return answer

        client._channel.request = stopped_meanwhile
        with pytest.raises(DeadlineExceeded, match="nothing was executed"):
            client.predict(observation())
        client._channel.request = ask
        np.testing.assert_array_equal(client.predict(observation()).actions, GOOD)
