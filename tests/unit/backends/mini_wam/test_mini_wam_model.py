# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from mini_wam_parts import INSTRUCTION, FakeSession, model, observation, request
from numpy.typing import NDArray

from rpent_box.backends.mini_wam import BACKEND
from rpent_box.backends.mini_wam.model import load
from rpent_box.backends.mini_wam.options import MiniWamOptions
from rpent_box.backends.mini_wam.session import Arrays
from rpent_box.contracts.checks import check_actions, check_observation
from rpent_box.errors import BadActions, BadObservation, BadOption
from rpent_box.worker.backend import BatchingBackend, LoadContext, PredictionInput


def test_a_chunk_is_what_the_meta_promises() -> None:
    loaded = model(FakeSession())
    shown = observation(primary=51)
    check_observation(shown, loaded.meta)
    chunk = loaded.predict(request(shown))
    check_actions(chunk, loaded.meta)
    assert chunk.actions[0, 0] == pytest.approx(0.2)
    assert set(chunk.timings_s) == {"encode", "infer", "decode"}


def test_the_future_is_not_computed_unless_asked_for() -> None:
    session = FakeSession()
    loaded = model(session)
    chunk = loaded.predict(request(observation()))
    assert session.asked == [("actions", "value", "thought")]
    assert chunk.future_observation is None
    assert chunk.value is None
    assert not loaded.meta.returns_future_observation
    assert not loaded.meta.returns_value


def test_the_future_and_the_progress_come_when_asked_for() -> None:
    loaded = model(FakeSession(), predict_future=True)
    chunk = loaded.predict(request(observation(primary=51)))
    assert loaded.meta.returns_future_observation
    assert loaded.meta.returns_value
    assert chunk.value == pytest.approx(0.2)
    assert chunk.future_observation is not None
    future = chunk.future_observation["primary"]
    assert future.shape == (64, 64, 3)
    assert (future == 51).all()


def test_a_batch_keeps_the_order_of_its_requests() -> None:
    loaded = model(FakeSession())
    assert isinstance(loaded, BatchingBackend)
    requests = [request(observation(primary=level)) for level in (255, 0, 51)]
    firsts = [float(chunk.actions[0, 0]) for chunk in loaded.predict_batch(requests)]
    assert firsts == pytest.approx([1.0, 0.0, 0.2])


def sizes_asked(session: FakeSession) -> list[int]:
    sizes = [len(inputs["images"]) for inputs in session.inputs]
    session.inputs.clear()
    return sizes


def test_the_first_batch_of_a_size_is_compared_with_single_predictions() -> None:
    session = FakeSession()
    loaded = model(session)
    loaded.predict_batch([request(observation())] * 16)
    assert sizes_asked(session) == [16, *[1] * 16, 16]
    loaded.predict_batch([request(observation())] * 16)
    assert sizes_asked(session) == [16]
    loaded.predict_batch([request(observation())] * 2)
    assert sizes_asked(session) == [2, 1, 1, 2]


class OrderedSession(FakeSession):
    """Adds up in another order for a batch of three: the last bits differ."""

    def run(self, outputs: Sequence[str], inputs: Arrays) -> dict[str, NDArray[np.float32]]:
        answers = super().run(outputs, inputs)
        if len(inputs["images"]) == 3:
            answers["actions"] = np.nextafter(answers["actions"], np.float32(2))
        return answers


def test_a_size_whose_bits_differ_is_never_inferred_at_once() -> None:
    session = OrderedSession()
    loaded = model(session)
    requests = [request(observation(primary=level)) for level in (255, 0, 51)]
    alone = [loaded.predict(one).actions for one in requests]
    sizes_asked(session)
    for asked in ([3, *[1] * 6], [1, 1, 1], [1, 1, 1]):
        together = [chunk.actions for chunk in loaded.predict_batch(requests)]
        assert np.array_equal(together, alone)
        assert sizes_asked(session) == asked
    loaded.predict_batch(requests[:2])
    loaded.predict_batch(requests[:2])
    assert sizes_asked(session) == [2, 1, 1, 2, 2]
    assert loaded.infers_at_once == {3: False, 2: True}
    raw, _ = loaded.compute(requests)
    assert not np.array_equal(raw["actions"], alone), "what is computed at once still differs"


def test_a_bit_that_the_limits_of_the_actions_hide_is_found() -> None:
    loaded = model(OrderedSession())
    loaded.predict_batch([request(observation(primary=255))] * 3)
    seen = request(observation(primary=51))
    for chunk in loaded.predict_batch([seen] * 3):
        assert np.array_equal(chunk.actions, loaded.predict(seen).actions)


def test_a_known_instruction_is_known_however_it_is_written() -> None:
    chunk = model(FakeSession()).predict(request(observation(instruction=INSTRUCTION.upper())))
    assert chunk.metadata["instruction_known"] is True


def test_another_instruction_is_answered_and_marked() -> None:
    chunk = model(FakeSession()).predict(request(observation(instruction="dance")))
    assert chunk.metadata["instruction_known"] is False
    assert chunk.actions.shape == (10, 7)


@pytest.mark.parametrize("output", ["actions", "value", "future"])
def test_what_the_network_computed_must_be_finite(output: str) -> None:
    session = FakeSession()
    session.spoil[output] = math.nan
    with pytest.raises(BadActions):
        model(session, predict_future=True).predict(request(observation()))


def test_unknown_request_options_are_refused() -> None:
    asked = PredictionInput(observation=observation(), session="test", options={"steps": 3})
    with pytest.raises(BadOption, match="steps"):
        model(FakeSession()).predict(asked)


def test_a_frame_of_an_odd_size_is_refused() -> None:
    with pytest.raises(BadObservation, match="224x224"):
        model(FakeSession()).predict(request(observation(size=224)))


def test_a_platform_without_an_adapter_is_refused_before_anything_is_loaded() -> None:
    context = LoadContext(platform="robotwin", checkpoint=None, threads=1, say=lambda phase: None)
    with pytest.raises(BadOption, match="robotwin"):
        load(MiniWamOptions(), context)


def test_the_declaration_and_the_loaded_model_agree() -> None:
    meta = model(FakeSession()).meta
    assert meta.backend == BACKEND.name
    assert meta.kind == BACKEND.kind
    assert meta.control.action_space in BACKEND.action_spaces
    assert meta.max_batch == 16
    assert msgspec.json.decode(msgspec.json.encode(meta), type=type(meta)) == meta


def test_declaring_the_backend_imports_no_model_framework() -> None:
    code = (
        "import sys, rpent_box.backends.mini_wam\n"
        "print(*sorted({'torch', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    shown = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == ""


def test_reset_drop_and_close_may_be_called_at_any_time() -> None:
    loaded = model(FakeSession())
    before = loaded.predict(request(observation(primary=9))).actions
    loaded.reset("test")
    loaded.drop("nobody")
    loaded.close()
    loaded.close()
    assert np.array_equal(loaded.predict(request(observation(primary=9))).actions, before)
