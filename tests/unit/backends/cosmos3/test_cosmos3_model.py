# SPDX-License-Identifier: Apache-2.0
"""The whole backend before the stub: batches, order, noise, deadlines, identity."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import stub_faults
from cosmos3_parts import asked, episode, loaded, scene, write_statistics
from sglang_stub import Body, Handler, SGLangStub, png_size

from rpent_box.backends.cosmos3 import service
from rpent_box.backends.noise import noise_seed
from rpent_box.contracts.checks import check_actions
from rpent_box.errors import (
    BadCheckpoint,
    BadOption,
    DeadlineExceeded,
    PredictionFailed,
    WorkerFailed,
)
from rpent_box.worker.backend import BatchingBackend, PredictionInput


@pytest.fixture
def stub() -> Iterator[SGLangStub]:
    with SGLangStub() as running:
        yield running


@pytest.fixture
def wide() -> Iterator[SGLangStub]:
    with SGLangStub(max_batch=8) as running:
        yield running


@pytest.fixture
def statistics(tmp_path: Path) -> Path:
    return write_statistics(tmp_path)


def test_a_prediction_is_a_whole_chunk_of_libero_actions(
    stub: SGLangStub, statistics: Path
) -> None:
    model = loaded(stub, statistics)
    chunk = model.predict(asked(scene(), episode()))
    check_actions(chunk, model.meta)
    assert chunk.actions.shape == (16, 7)
    assert set(np.unique(chunk.actions[:, 6])) <= {-1.0, 0.0, 1.0}
    assert chunk.metadata["noise_seed"] == noise_seed(1, episode())
    assert set(chunk.timings_s) == {"encode", "infer", "decode"}
    (request,) = stub.requests
    assert request["parameters"]["domain_name"] == "libero"
    assert png_size(request["input"]["input_reference"][0]) == (320, 192)
    model.close()


def test_its_meta_promises_what_it_does(stub: SGLangStub, statistics: Path) -> None:
    model = loaded(stub, statistics, http_timeout_s=100.0, num_action_chunks=8)
    meta = model.meta
    assert (meta.action_horizon, meta.execute_steps, meta.max_batch) == (16, 8, 1)
    assert meta.prediction_timeout_s == 130.0
    assert meta.camera_roles == ("primary", "wrist")
    assert meta.proprio_schema == {}
    assert meta.checkpoint == "nvidia/cosmos3-test"
    assert meta.provenance["sglang"] == "0.5.19"
    assert meta.provenance["service"] == stub.endpoint
    assert len(meta.provenance["statistics_sha256"]) == 64
    assert isinstance(model, BatchingBackend)
    assert model.predict(asked(scene())).actions.shape == (8, 7)


def test_without_an_episode_the_seed_is_the_option(stub: SGLangStub, statistics: Path) -> None:
    loaded(stub, statistics, seed=1140).predict(asked(scene()))
    assert stub.requests[0]["parameters"]["seed"] == 1140


def test_by_default_every_environment_has_a_request_and_a_seed_of_its_own(
    wide: SGLangStub, statistics: Path
) -> None:
    model = loaded(wide, statistics)
    keys = [episode(number=number) for number in range(3)]
    model.predict_batch([asked(scene(0), key) for key in keys])
    seeds = [request["parameters"]["seed"] for request in wide.requests]
    assert seeds == [noise_seed(1, key) for key in keys]
    assert len(set(seeds)) == 3
    assert [len(request["input"]["prompt"]) for request in wide.requests] == [1, 1, 1]


def test_by_default_nobodys_noise_depends_on_who_else_is_asked_for(
    stub: SGLangStub, statistics: Path
) -> None:
    model = loaded(stub, statistics)
    one, two = asked(scene(1), episode(number=1)), asked(scene(2), episode(number=2))
    alone = [model.predict(request).actions for request in (one, two)]
    together = [chunk.actions for chunk in model.predict_batch([two, one])]
    np.testing.assert_array_equal(together[1], alone[0])
    np.testing.assert_array_equal(together[0], alone[1])


def test_a_batch_is_grouped_by_prompt_and_gathered_in_the_order_of_the_environments(
    wide: SGLangStub, statistics: Path
) -> None:
    model = loaded(wide, statistics, batching_max_size=2)
    assert model.meta.max_batch == 2
    tasks = ["pick the bowl", "open the drawer", "pick the bowl", "pick the bowl"]
    requests = [asked(scene(n, task), episode(number=n)) for n, task in enumerate(tasks)]
    chunks = model.predict_batch(requests)
    sizes = [len(request["input"]["prompt"]) for request in wide.requests]
    assert sizes == [2, 1, 1]
    assert wide.requests[2]["input"]["prompt"][0].startswith("open the drawer.")
    assert [chunk.metadata["environments_in_request"] for chunk in chunks] == [2, 1, 2, 1]
    seeds = [request["parameters"]["seed"] for request in wide.requests]
    assert [chunk.metadata["noise_seed"] for chunk in chunks] == [
        seeds[0], seeds[2], seeds[0], seeds[1],
    ]  # fmt: skip
    # Those that had a request to themselves got what they would have got alone.
    for place in (1, 3):
        np.testing.assert_array_equal(chunks[place].actions, model.predict(requests[place]).actions)


def test_answers_are_gathered_by_input_index_whatever_their_order(
    wide: SGLangStub, statistics: Path
) -> None:
    model = loaded(wide, statistics, batching_max_size=4)
    requests = [asked(scene(n), episode(number=n)) for n in range(4)]
    in_order = [chunk.actions for chunk in model.predict_batch(requests)]
    wide.fault = stub_faults.reordered
    out_of_order = [chunk.actions for chunk in model.predict_batch(requests)]
    np.testing.assert_array_equal(out_of_order, in_order)
    assert len({actions.tobytes() for actions in in_order}) == 4


@pytest.mark.parametrize("at_once", [1, 2])
def test_as_many_requests_are_under_way_as_was_asked(
    stub: SGLangStub, statistics: Path, at_once: int
) -> None:
    met = threading.Barrier(at_once)

    def together(handler: Handler, answer: Body) -> None:
        met.wait(20.0)  # breaks, and the answer with it, where fewer are under way
        handler.reply(200, answer)

    model = loaded(stub, statistics, concurrent_requests=at_once)
    assert model.meta.max_batch == at_once
    stub.fault = together
    requests = [asked(scene(n), episode(number=n)) for n in range(4)]
    chunks = [chunk.actions for chunk in model.predict_batch(requests)]
    assert stub.most_at_once == at_once
    stub.fault = None
    np.testing.assert_array_equal(chunks, [model.predict(one).actions for one in requests])


def test_a_batch_has_one_deadline_together(stub: SGLangStub, statistics: Path) -> None:
    model = loaded(stub, statistics, http_timeout_s=0.4)
    stub.fault = stub_faults.slow
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="did not answer"):
        model.predict_batch([asked(scene(n)) for n in range(4)])
    assert time.monotonic() - began < 20.0


def test_cameras_of_different_sizes_are_reported(stub: SGLangStub, statistics: Path) -> None:
    observation = scene()
    observation.images["wrist"] = observation.images["wrist"][:96, :96].copy()
    chunk = loaded(stub, statistics).predict(asked(observation))
    assert chunk.metadata["saw_every_camera"] is False


def test_options_are_refused(stub: SGLangStub, statistics: Path) -> None:
    request = PredictionInput(observation=scene(), session="test", options={"seed": 3})
    with pytest.raises(BadOption, match="seed"):
        loaded(stub, statistics).predict(request)
    assert stub.requests == []


def test_closing_twice_leaves_the_borrowed_service_alive(
    stub: SGLangStub, statistics: Path
) -> None:
    model = loaded(stub, statistics)
    model.close()
    model.close()
    assert loaded(stub, statistics).predict(asked(scene())).actions.shape == (16, 7)


@pytest.mark.parametrize(
    "checkpoint",
    ["nvidia/cosmos3-test", "/models/cosmos3-test", "cosmos3-test", "/elsewhere/cosmos3-test/"],
)
def test_a_service_that_serves_what_was_asked_for_is_taken(
    stub: SGLangStub, statistics: Path, checkpoint: str
) -> None:
    assert loaded(stub, statistics, checkpoint=checkpoint).meta.checkpoint == checkpoint


def test_a_service_that_serves_another_model_is_refused(stub: SGLangStub, statistics: Path) -> None:
    with pytest.raises(BadCheckpoint, match="cosmos3-other") as refused:
        loaded(stub, statistics, checkpoint="nvidia/cosmos3-other")
    assert "--checkpoint nvidia/cosmos3-test" in str(refused.value)


def test_a_service_of_another_family_is_refused(stub: SGLangStub, statistics: Path) -> None:
    stub.policy_family = "pi05"
    with pytest.raises(BadCheckpoint, match="pi05"):
        loaded(stub, statistics)


def test_a_batch_that_the_service_would_not_take_is_refused(
    stub: SGLangStub, statistics: Path
) -> None:
    with pytest.raises(BadOption, match="at most 1"):
        loaded(stub, statistics, batching_max_size=2)


def test_a_service_that_is_not_there_is_waited_for_and_then_said_to_be_missing(
    statistics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "POLL_S", 0.02)
    with SGLangStub() as gone:
        pass
    phases: list[str] = []
    began = time.monotonic()
    with pytest.raises(WorkerFailed, match="no SGLang service answers") as failed:
        loaded(gone, statistics, service_wait_s=1.0, phases=phases)
    assert 0.5 < time.monotonic() - began < 20.0
    assert any("waiting" in phase for phase in phases)
    assert "--service-wait-s" in str(failed.value)


def test_a_last_question_without_time_does_not_hide_that_nothing_answers(
    stub: SGLangStub, statistics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [PredictionFailed("no SGLang service answers here"), DeadlineExceeded("within 0.001 s")]

    def get(client: service.SGLangClient, path: str, *, deadline: float) -> object:
        raise said.pop(0)

    monkeypatch.setattr(service, "POLL_S", 0.0)
    monkeypatch.setattr(service.SGLangClient, "get", get)
    with pytest.raises(WorkerFailed, match="no SGLang service answers here"):
        loaded(stub, statistics, service_wait_s=20.0)
    assert not said


def test_a_service_that_comes_up_late_is_found(
    stub: SGLangStub, statistics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "POLL_S", 0.02)
    calls = []

    def still_loading(handler: object, answer: dict[str, object]) -> None:
        calls.append(answer)
        if len(calls) == 2:
            stub.metadata_fault = None
        handler.reply(503, {"detail": "loading"})  # type: ignore[attr-defined]

    stub.metadata_fault = still_loading
    assert loaded(stub, statistics, service_wait_s=20.0).meta.backend == "cosmos3"
    assert len(calls) == 2


def test_a_service_that_says_nothing_is_given_up(stub: SGLangStub, statistics: Path) -> None:
    stub.metadata_fault = stub_faults.slow
    with pytest.raises(WorkerFailed, match="did not answer"):
        loaded(stub, statistics, service_wait_s=0.5)


@pytest.mark.parametrize(
    "fault",
    [
        stub_faults.raw(200, b"<html>router</html>", "text/html"),
        stub_faults.said(200, {"object": "list", "data": []}),
        stub_faults.said(404, {"detail": "Not Found"}),
    ],
    ids=["a page", "something else", "no such path"],
)
def test_what_is_no_action_service_is_refused_at_once(
    stub: SGLangStub, statistics: Path, fault: stub_faults.Fault
) -> None:
    stub.metadata_fault = fault
    with pytest.raises(WorkerFailed, match="metadata"):
        loaded(stub, statistics, service_wait_s=20.0)


def test_no_checkpoint_or_no_endpoint_is_asked_for(stub: SGLangStub, statistics: Path) -> None:
    with pytest.raises(BadOption, match="name of the served model"):
        loaded(stub, statistics, checkpoint=None)
