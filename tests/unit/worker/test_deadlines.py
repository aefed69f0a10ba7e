# SPDX-License-Identifier: Apache-2.0
import pytest
from fake_models import FakeModel, observation
from running_service import LINKS, ask_raw, running, wait_until

from rpent_box.contracts.messages import Fault
from rpent_box.errors import DeadlineExceeded


@pytest.mark.parametrize("link", LINKS)
def test_a_request_past_its_deadline_is_dropped_with_an_error_and_never_predicted(link):
    model = FakeModel()
    with running(model, link=link) as worker:
        busy, late = worker.client("busy"), worker.client("late")
        blocked = worker.in_thread(lambda: busy.predict(observation("wait")))
        assert model.started.wait(60.0)
        # The model is busy throughout: only the receiving thread can answer.
        fault = ask_raw(late._channel, observation("late"), timeout_s=0.2)
        assert worker.health().queued == 0
        model.go_on.set()
        blocked()
        late.predict(observation("in time"))

    assert isinstance(fault, Fault)
    assert fault.code == DeadlineExceeded.code
    assert "within 0.2 s" in fault.message
    words = [seen.observation.instruction for seen in model.seen]
    assert words == ["wait", "in time"]


@pytest.mark.parametrize("link", LINKS)
def test_a_late_reply_is_refused_and_not_taken_for_the_next_one(link):
    model = FakeModel()
    with running(model, link=link) as worker:
        client = worker.client(prediction_timeout_s=0.3)
        client.predict(observation(level=1))
        model.started.clear()
        with pytest.raises(DeadlineExceeded):
            client.predict(observation("wait", level=50))
        model.go_on.set()
        wait_until(lambda: worker.health().in_flight == 0)
        chunk = client.predict(observation(level=3))

    assert chunk.actions[0, 1] == 3


def test_after_a_timeout_its_slot_is_not_written_again_until_a_reset():
    model = FakeModel()
    with running(model) as worker:
        client = worker.client(prediction_timeout_s=0.2)
        client.predict(observation())
        ring = client._channel._ring
        free = ring.free_slots
        with pytest.raises(DeadlineExceeded):
            client.predict(observation("wait"))
        assert ring.free_slots == free - 1
        model.go_on.set()
        client.predict(observation())
        assert ring.free_slots == free - 1
        client.reset()
        assert ring.free_slots == free


def test_a_model_that_answers_too_late_has_its_answer_thrown_away():
    model = FakeModel()
    with running(model) as worker:
        client = worker.client()
        fault = ask_raw(client._channel, observation("sleep 0.3"), timeout_s=0.1)
    assert fault.code == DeadlineExceeded.code
