# SPDX-License-Identifier: Apache-2.0
"""Whatever the service answers, an error says what came, and nothing bad is executed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import stub_faults
from cosmos3_parts import asked, loaded, scene, write_statistics
from sglang_stub import Body, Fault, SGLangStub

from rpent_box.backends.cosmos3.client import LARGEST_ANSWER
from rpent_box.backends.cosmos3.model import Cosmos3
from rpent_box.contracts.checks import check_actions
from rpent_box.errors import BadActions, DeadlineExceeded, PredictionFailed


@pytest.fixture
def stub() -> Iterator[SGLangStub]:
    with SGLangStub(max_batch=2) as running:
        yield running


@pytest.fixture
def model(stub: SGLangStub, tmp_path: Path) -> Iterator[Cosmos3]:
    backend = loaded(stub, write_statistics(tmp_path), batching_max_size=2, http_timeout_s=20.0)
    yield backend
    backend.close()


PAIR = [asked(scene(1)), asked(scene(2))]


def in_data(change: Callable[[list[Body]], object]) -> Fault:
    return stub_faults.changed(lambda answer: change(answer["data"]) and None)


def in_action(**changes: object) -> Fault:
    return stub_faults.changed(lambda answer: answer["data"][0]["action"].update(changes))


def repeat_first(data: list[Body]) -> None:
    data[1]["input_index"] = 0


UNUSABLE = {
    "a record short": (in_data(lambda data: data.pop()), "1 records"),
    "a record long": (in_data(lambda data: data.append(data[0])), "3 records"),
    "no records": (in_data(lambda data: data.clear()), "0 records"),
    "one input twice": (in_data(repeat_first), r"\[0, 0\]"),
    "an input that was not asked": (
        in_data(lambda data: data[0].update(input_index=7)),
        r"\[7, 1\]",
    ),
    "a negative input": (in_data(lambda data: data[0].update(input_index=-1)), r"\[-1, 1\]"),
    "another candidate": (in_data(lambda data: data[0].update(candidate_index=1)), "candidate 1"),
    "NaN as SGLang writes it": (stub_faults.number(None), "None in step 3, column 4"),
    "NaN as Python writes it": (stub_faults.number(float("nan")), "nan in step 3, column 4"),
    "infinity": (stub_faults.number(float("inf")), "inf in step 3, column 4"),
    "more than float32 holds": (stub_faults.number(1e300), "in step 3, column 4"),
    "another dtype": (in_action(dtype="bfloat16"), "bfloat16"),
    "discrete actions": (in_action(type="discrete"), "discrete"),
    "another shape than told": (in_action(shape=[16, 11]), r"\[16, 11\]"),
    "another shape's rank": (in_action(shape=[1, 16, 10]), r"\[1, 16, 10\]"),
    "seven numbers": (in_action(shape=[2, 7], values=[[0.1] * 7] * 2), r"\[2, 7\]"),
    "no steps": (in_action(shape=[0, 10], values=[]), r"wanted 1 to|shape"),
    "ragged steps": (in_action(values=[[0.1] * 10, [0.1] * 9]), "unequal"),
    "another raw_action_dim": (in_action(raw_action_dim=7), "raw_action_dim is 7"),
    "too many steps": (stub_faults.horizon(5000), "5000"),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "named"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_that_cannot_be_used_is_refused(
    stub: SGLangStub, model: Cosmos3, fault: Fault, named: str
) -> None:
    stub.fault = fault
    with pytest.raises(BadActions, match=named) as refused:
        model.predict_batch(PAIR)
    assert stub.endpoint in str(refused.value)
    _works_again(stub, model)


FOREIGN = {
    "no JSON": (stub_faults.raw(200, b"actions: 3"), "not JSON"),
    "a page": (stub_faults.raw(200, b"<html></html>", "text/html"), "not JSON"),
    "nothing": (stub_faults.raw(200, b""), "not JSON"),
    "bytes": (stub_faults.raw(200, b"\xff\xfe\x00"), "not JSON"),
    "a list": (stub_faults.raw(200, b"[]"), "none of the protocol"),
    "deep nesting": (stub_faults.raw(200, b"[" * 200_000), "not JSON|none of the protocol"),
    "another object": (
        stub_faults.changed(lambda answer: answer.update(object="list")),
        "object list",
    ),
    "no data": (stub_faults.changed(lambda answer: answer.pop("data") and None), "data"),
    "words for numbers": (in_action(values=[["much"] * 10]), "none of the protocol"),
    "numbers without end": (
        stub_faults.raw(200, b'{"data": ' + b"9" * 5000 + b"}"),
        "not JSON|none of the protocol",
    ),
    "another model than at the start": (
        stub_faults.changed(lambda answer: answer.update(model="pi05")),
        "now serves pi05",
    ),
    "refused with a reason": (
        stub_faults.said(400, {"detail": "the prompts differ in length"}),
        "refused the request: the prompts differ in length",
    ),
    "refused with a list": (
        stub_faults.said(422, {"detail": [{"loc": ["body"], "msg": "bad"}]}),
        "status 422.*bad",
    ),
    "failed": (stub_faults.said(500, {"detail": "CUDA out of memory"}), "status 500.*CUDA"),
    "failed in plain words": (
        stub_faults.raw(500, b"Internal Server Error", "text/plain"),
        "status 500: Internal Server Error",
    ),
    "failed without a word": (stub_faults.raw(503, b""), "status 503: it gave no reason"),
    "not known": (stub_faults.said(404, {"detail": "Not Found"}), "does not know"),
    "sent elsewhere": (stub_faults.raw(307, b""), "status 307"),
    "dropped": (stub_faults.dropped, "broke off"),
    "dropped in the middle": (stub_faults.dropped_in_the_middle, "broke off"),
    "reset": (stub_faults.reset, "broke off"),
    "without end": (stub_faults.endless, f"larger than {LARGEST_ANSWER}"),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "named"), FOREIGN.values(), ids=FOREIGN)
def test_a_service_that_fails_is_an_error_with_its_own_words(
    stub: SGLangStub, model: Cosmos3, fault: Fault, named: str
) -> None:
    stub.fault = fault
    with pytest.raises(PredictionFailed, match=named) as failed:
        model.predict_batch(PAIR)
    assert stub.endpoint in str(failed.value)
    _works_again(stub, model)


@pytest.mark.parametrize("fault", [stub_faults.slow, stub_faults.dripping], ids=["slow", "drips"])
def test_an_answer_that_is_late_is_given_up_at_the_deadline(
    stub: SGLangStub, tmp_path: Path, fault: Fault
) -> None:
    model = loaded(stub, write_statistics(tmp_path), http_timeout_s=0.5)
    stub.fault = fault
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"within 0\.[45]") as late:
        model.predict(asked(scene()))
    assert 0.4 < time.monotonic() - began < 20.0
    assert "--http-timeout-s" in str(late.value)
    _works_again(stub, model)


def test_a_service_that_ended_is_an_error_that_names_the_next_step(tmp_path: Path) -> None:
    with SGLangStub() as stub:
        model = loaded(stub, write_statistics(tmp_path))
    with pytest.raises(PredictionFailed, match="no SGLang service answers") as failed:
        model.predict(asked(scene()))
    assert "--sglang-endpoint" in str(failed.value)


@pytest.mark.parametrize("steps", [1, 5, 20, 4096])
def test_a_short_horizon_is_filled_with_its_last_step_and_a_long_one_is_cut(
    stub: SGLangStub, model: Cosmos3, steps: int
) -> None:
    whole = model.predict(PAIR[0])
    stub.fault = stub_faults.horizon(steps)
    chunk = model.predict(PAIR[0])
    check_actions(chunk, model.meta)
    assert chunk.metadata["steps_predicted"] == steps
    kept = min(steps, 16)
    np.testing.assert_array_equal(chunk.actions[:kept], whole.actions[:kept])
    for step in range(kept, 16):
        np.testing.assert_array_equal(chunk.actions[step], chunk.actions[kept - 1])


def test_padding_beyond_the_tenth_number_is_not_looked_at_as_motion(
    stub: SGLangStub, model: Cosmos3
) -> None:
    whole = model.predict(PAIR[0])

    def widen(answer: Body) -> None:
        action = answer["data"][0]["action"]
        action["values"] = [[*row, 9.0, -9.0] for row in action["values"]]
        action["shape"] = [16, 12]

    stub.fault = stub_faults.changed(widen)
    np.testing.assert_array_equal(model.predict(PAIR[0]).actions, whole.actions)


def test_new_fields_in_an_answer_do_no_harm(stub: SGLangStub, model: Cosmos3) -> None:
    stub.fault = stub_faults.changed(lambda answer: answer.update(timings={"total_s": 1.0}))
    check_actions(model.predict(PAIR[0]), model.meta)


def _works_again(stub: SGLangStub, model: Cosmos3) -> None:
    stub.fault = None
    check_actions(model.predict(PAIR[0]), model.meta)
