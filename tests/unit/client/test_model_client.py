# SPDX-License-Identifier: Apache-2.0
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_models import META, SPEC, STATEFUL, FakeModel, observation
from msgspec.structs import replace
from running_service import LINKS, running, wait_until

from rpent_box.client.model_client import ModelClient
from rpent_box.errors import (
    BadOption,
    PeerGone,
    SharedMemoryFull,
    StaleFrame,
    StartTimeout,
    WorkerDraining,
    WorkerFailed,
)
from rpent_box.transport.onlooker import copy_of
from rpent_box.transport.paths import SHM

VLA_META = replace(META, kind="vla")
VLA_SPEC = replace(SPEC, kind="vla")


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("side", [16, 300])
def test_a_future_frame_comes_back_as_a_copy_of_its_own(link, side):
    with running(FakeModel(), link=link) as worker:
        client = worker.client()
        chunks = [client.predict(observation(f"future {side}")) for _ in range(6)]
    for chunk in chunks:
        frame = chunk.future_observation["primary"]
        assert (frame.shape, frame.dtype) == ((side, side, 3), np.uint8)
        assert (frame == 9).all()
        assert chunk.value == 0.5


def test_a_vla_is_asked_as_a_vla_and_gets_its_options():
    model = FakeModel(VLA_META)
    with running(model, spec=VLA_SPEC) as worker:
        client = worker.client()
        client.reset()
        client.predict(observation(), options={"steps": 5})
    assert model.calls[0][0] == "reset"
    assert model.seen[0].options == {"steps": 5}


def test_a_world_action_model_takes_no_options():
    with running(FakeModel()) as worker:
        client = worker.client()
        with pytest.raises(BadOption, match="takes no options; got steps"):
            client.predict(observation(), options={"steps": 5})


@pytest.mark.parametrize(
    ("explicit", "of_the_model", "expected"),
    [(5.0, 20.0, 5.0), (None, 20.0, 20.0), (None, None, 300.0), (5.0, None, 5.0)],
)
def test_the_explicit_timeout_wins_then_the_models_then_300_s(explicit, of_the_model, expected):
    meta = replace(META, prediction_timeout_s=of_the_model)
    with running(FakeModel(meta)) as worker:
        client = worker.client(prediction_timeout_s=explicit)
        assert client.prediction_timeout_s == expected


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, math.nan, math.inf])
def test_a_timeout_that_cannot_be_kept_is_refused(timeout_s):
    with running(FakeModel()) as worker, pytest.raises(BadOption, match="cannot be kept"):
        worker.client(prediction_timeout_s=timeout_s)


def test_a_session_is_registered_only_where_the_model_remembers():
    for meta, sessions in ((META, 0), (STATEFUL, 1)):
        with running(FakeModel(meta)) as worker:
            assert worker.client().health().sessions == sessions


def test_connecting_resets_nothing():
    model = FakeModel(STATEFUL)
    with running(model) as worker:
        worker.client().predict(observation())
    assert model.calls[0][0] == "predict"


def test_the_transport_is_what_the_round_trip_took_beyond_the_worker():
    with running(FakeModel()) as worker:
        client = worker.client()
        client.predict(observation())
        began = time.monotonic()
        timings_s = client.predict(observation("sleep 0.1")).timings_s
        took_s = time.monotonic() - began
    assert timings_s["infer"] >= 0.1
    assert timings_s["transport"] > 0
    assert sum(timings_s.values()) <= took_s


def test_not_ready_in_time_names_the_phase():
    finish = threading.Event()

    def load(say):
        say("reading 5 of 9 shards")
        finish.wait(60.0)
        return FakeModel()

    with running(load, link="tcp") as worker:
        wait_until(lambda: worker.health().reason == "reading 5 of 9 shards")
        with pytest.raises(StartTimeout, match=r"it is loading \(reading 5 of 9 shards\)"):
            _connect(worker, timeout_s=0.4)
        finish.set()


def test_a_failed_worker_is_told_at_once_with_its_traceback():
    def load(_):
        raise ValueError("the weights are torn")

    with running(load, link="tcp") as worker:
        wait_until(lambda: worker.health().state == "failed")
        with pytest.raises(WorkerFailed, match="the weights are torn") as failed:
            _connect(worker, timeout_s=30.0)
    assert "in load" in failed.value.detail


def test_a_worker_that_is_ending_is_told_at_once():
    model = FakeModel()
    with running(model, link="tcp") as worker:
        busy = worker.client()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(busy.predict, observation("wait"))
            assert model.started.wait(60.0)
            worker.service.drain("now")
            wait_until(lambda: worker.health().state == "draining")
            with pytest.raises(WorkerDraining):
                _connect(worker, timeout_s=30.0)
            model.go_on.set()
            answer.result()


def test_nobody_there_is_told_at_once():
    with pytest.raises(PeerGone, match="no such socket"):
        ModelClient.connect("ipc:///tmp/rb-nobody.sock", client="c", box=None, timeout_s=60.0)


def test_a_full_shared_memory_is_told_when_connecting():
    with running(FakeModel()) as worker:
        client = worker.client()
        with pytest.raises(SharedMemoryFull):
            client.reserve((2_000_000, 2_000_000))
        wait_until(lambda: worker.health().state == "ready")


def test_closing_twice_is_once():
    with running(FakeModel(STATEFUL)) as worker:
        client = worker.client()
        client.close()
        client.close()


def _connect(worker, *, timeout_s):
    endpoint = worker.channel().endpoint
    return ModelClient.connect(endpoint, client="c", box=None, timeout_s=timeout_s)


def test_where_the_model_has_just_looked_is_known_until_it_looks_again():
    with running(FakeModel(), link="shm") as worker:
        client = worker.client()
        assert client.seen is None
        shown = observation()
        client.predict(shown)
        first = client.seen
        frames = copy_of(first, search=[SHM])
        assert {role: frame.tolist() for role, frame in frames.items()} == {
            role: shown.images[role].tolist() for role in META.camera_roles
        }
        client.reset()
        assert client.seen == first
        client.predict(shown)
        assert client.seen != first
        with pytest.raises(StaleFrame):
            copy_of(first, search=[SHM])


def test_frames_that_travel_over_the_wire_cannot_be_looked_at():
    with running(FakeModel(), link="tcp") as worker:
        client = worker.client()
        client.predict(observation())
        assert client.seen is None
