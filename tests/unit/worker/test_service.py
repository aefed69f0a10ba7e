# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from fake_models import META, FakeModel, observation
from running_service import LINKS, running

from rpent_box.contracts.messages import EpisodeKey


@pytest.mark.parametrize("link", LINKS)
def test_a_prediction_carries_pixels_proprio_and_words_to_the_model_and_actions_back(link):
    model = FakeModel()
    with running(model, link=link) as worker:
        client = worker.client()
        key = EpisodeKey(seed=1, suite="s", task=2, episode=3, chunk=4)
        chunk = client.predict(observation("go", level=7), episode=key)

    expected = np.tile(np.array([1, 7, 8, 0.1, 0.2, 0.3, 0], np.float32), (3, 1))
    np.testing.assert_array_equal(chunk.actions, expected)
    assert chunk.actions.dtype == np.float32
    assert client.meta == META
    seen = model.seen[0]
    assert seen.observation.instruction == "go"
    assert seen.episode == key
    assert set(seen.observation.images) == {"primary", "wrist"}
    assert not seen.observation.images["primary"].flags.writeable


@pytest.mark.parametrize("link", LINKS)
def test_what_the_model_does_not_declare_is_not_sent(link):
    model = FakeModel()
    with running(model, link=link) as worker:
        worker.client().predict(observation())

    assert set(model.seen[0].observation.proprio) == {"eef_position"}
