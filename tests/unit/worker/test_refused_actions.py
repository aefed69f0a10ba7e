# SPDX-License-Identifier: Apache-2.0
"""What a worker does not let out of its model. After each refusal it lives on."""

import pytest
from fake_models import SPOILT, FakeModel, observation
from running_service import LINKS, running

from rpent_box.errors import BadActions, PredictionFailed


def refused(instruction, error, match, *, link="shm"):
    with running(FakeModel(), link=link) as worker:
        client = worker.client()
        with pytest.raises(error, match=match) as caught:
            client.predict(observation(instruction))
        assert client.predict(observation()).actions[0, 0] == 2
        assert worker.figures().served == 1
    return caught.value


@pytest.mark.parametrize("link", LINKS)
def test_nan(link):
    refused(
        "nan", BadActions, "returned nan for gripper in step 1; nothing was executed", link=link
    )


def test_a_wrong_shape():
    refused("shape", BadActions, r"shape \[3, 6\]; wanted \[3, 7\]")


def test_a_wrong_length():
    refused("length", BadActions, "returned 2 steps; its meta promises 3")


def test_a_wrong_dtype():
    refused("double", BadActions, "float64 actions; wanted float32")


def test_nothing_at_all():
    refused("nothing", BadActions, "returned NoneType")


def test_metadata_that_cannot_travel():
    refused("odd-metadata", BadActions, "metadata seed of type float32")


@pytest.mark.parametrize("link", LINKS)
def test_an_exception_in_the_model_comes_back_with_its_traceback(link):
    error = refused("raise", PredictionFailed, "raised on request", link=link)
    assert "in _obey" in error.detail
    assert error.message == "the model raised RuntimeError: the fake model raised on request"


@pytest.mark.parametrize("what", SPOILT)
def test_what_else_a_model_may_get_wrong_does_not_end_its_worker(what):
    refused(f"spoilt {what}", BadActions, "^fake (returned|says)")


def test_a_library_that_exits_is_an_error_like_any_other():
    refused("exit", PredictionFailed, "SystemExit: a library has called")
