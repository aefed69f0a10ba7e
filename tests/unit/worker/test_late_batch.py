# SPDX-License-Identifier: Apache-2.0
"""After a batch that failed, only those who can still use an answer are asked one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fake_models import META, BatchingModel, observation

from rpent_box.contracts.messages import Fault
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import DeadlineExceeded, PredictionFailed
from rpent_box.worker.backend import PredictionInput
from rpent_box.worker.predicting import predict_all
from rpent_box.worker.work import Prediction


class SlowlyFailing(BatchingModel):
    """Fails a batch after some time; answers each prediction when it is asked for alone."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self.takes_s = takes_s
        self.alone = 0

    def predict_batch(self, requests: Sequence[PredictionInput]) -> list[ActionChunk]:
        time.sleep(self.takes_s)
        raise RuntimeError("a service did not answer")

    def predict(self, request: PredictionInput) -> ActionChunk:
        self.alone += 1
        return super().predict(request)


def waiting(number: int, *, for_s: float) -> Prediction:
    now = time.monotonic()
    return Prediction(
        connection=b"%d" % number,
        request_id=number,
        received=now,
        deadline=now + for_s,
        input=PredictionInput(observation=observation(level=number), session=f"s{number}"),
        recheck=lambda: None,
    )


def test_nobody_whose_time_is_over_is_asked_for_again() -> None:
    model = SlowlyFailing(takes_s=0.2)
    patient, hurried = waiting(1, for_s=60.0), waiting(2, for_s=0.1)
    first, second = predict_all(model, META, [patient, hurried])
    assert isinstance(first.result, ActionChunk)
    assert isinstance(second.result, Fault)
    assert second.result.code == DeadlineExceeded.code
    assert model.alone == 1


def test_nobody_is_asked_for_again_who_has_less_time_left_than_failing_took() -> None:
    model = SlowlyFailing(takes_s=0.3)
    patient, hurried = waiting(1, for_s=60.0), waiting(2, for_s=0.5)
    first, second = predict_all(model, META, [patient, hurried])
    assert isinstance(first.result, ActionChunk)
    assert isinstance(second.result, Fault)
    assert second.result.code == PredictionFailed.code
    assert "a service did not answer" in second.result.message
    assert model.alone == 1


class NeverAnswering(SlowlyFailing):
    def predict(self, request: PredictionInput) -> ActionChunk:
        self.alone += 1
        time.sleep(self.takes_s)
        raise RuntimeError("a service did not answer")


def test_a_service_that_answers_nothing_is_not_waited_for_once_per_client() -> None:
    model = NeverAnswering(takes_s=0.2)
    began = time.monotonic()
    answers = predict_all(model, META, [waiting(number, for_s=0.5) for number in range(4)])
    assert all(isinstance(answer.result, Fault) for answer in answers)
    assert model.alone == 1
    assert time.monotonic() - began < 0.6
