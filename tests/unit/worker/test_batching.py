# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from fake_models import META, BatchingModel, FakeModel, observation
from msgspec.structs import replace
from running_service import gathered, running

from rpent_box.errors import BadActions, PredictionFailed
from rpent_box.worker.config import ServiceConfig


def test_each_client_of_a_batch_gets_its_own_answer():
    model = BatchingModel()
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(4)]
        seen = [observation(level=10 * n) for n in range(4)]
        calls = gathered(worker, model, clients, seen)
        levels = [call().actions[0, 1] for call in calls]

    assert levels == [0, 10, 20, 30]
    assert model.batches == [4]


def test_max_batch_is_the_smaller_of_what_the_model_and_the_command_line_say():
    model = BatchingModel()
    config = ServiceConfig(max_batch=2, drain_s=2.0, sweep_s=0.05)
    with running(model, config=config) as worker:
        clients = [worker.client(f"c{n}") for n in range(4)]
        assert clients[0].meta.max_batch == 2
        for call in gathered(worker, model, clients, [observation()] * 4):
            call()
    assert model.batches == [2, 2]


def test_a_model_that_cannot_batch_is_asked_one_by_one_and_says_so():
    model = FakeModel(replace(META, max_batch=8))
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(3)]
        assert clients[0].meta.max_batch == 1
        seen = [observation(level=n) for n in range(3)]
        assert [c().actions[0, 1] for c in gathered(worker, model, clients, seen)] == [0, 1, 2]


def test_one_bad_observation_does_not_spoil_its_batch():
    model = BatchingModel()
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(3)]
        seen = [observation(level=1), observation("raise"), observation(level=3)]
        first, second, third = gathered(worker, model, clients, seen)
        assert first().actions[0, 1] == 1
        assert third().actions[0, 1] == 3
        with pytest.raises(PredictionFailed, match="on request"):
            second()


def test_a_bad_chunk_in_a_batch_is_refused_alone():
    model = BatchingModel()
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(2)]
        good, bad = gathered(worker, model, clients, [observation(), observation("nan")])
        assert np.isfinite(good().actions).all()
        with pytest.raises(BadActions, match="nan"):
            bad()


def test_a_model_with_memory_is_not_asked_twice_when_its_batch_fails():
    model = BatchingModel(replace(META, max_batch=4, uses_sessions=True))
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(2)]
        calls = gathered(worker, model, clients, [observation(), observation("raise")])
        for call in calls:
            with pytest.raises(PredictionFailed):
                call()
        asked = [seen.observation.instruction for seen in model.seen]
    assert asked == ["wait", "go", "raise"]


def test_too_few_chunks_for_a_batch_are_refused():
    class Forgetful(BatchingModel):
        def predict_batch(self, requests):
            return super().predict_batch(requests)[:-1]

    model = Forgetful(replace(META, max_batch=4, uses_sessions=True))
    with running(model) as worker:
        clients = [worker.client(f"c{n}") for n in range(2)]
        for call in gathered(worker, model, clients, [observation(), observation()]):
            with pytest.raises(BadActions, match="1 chunks for 2 observations"):
                call()


def test_timings_tell_how_long_a_request_waited():
    model = BatchingModel()
    with running(model) as worker:
        client = worker.client()
        chunk = client.predict(observation("sleep 0.05"))
    assert set(chunk.timings_s) == {"queue", "infer", "transport"}
    assert chunk.timings_s["infer"] >= 0.05
    assert all(seconds >= 0 for seconds in chunk.timings_s.values())
