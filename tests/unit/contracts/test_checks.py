# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from fake_models import META, observation

from rpent_box.contracts.checks import check_actions, check_observation
from rpent_box.contracts.observation import ActionChunk
from rpent_box.errors import BadActions, BadObservation


def chunk(**changes):
    return ActionChunk(**{"actions": np.zeros((3, 7), np.float32), **changes})


def test_what_is_sound_passes():
    check_observation(observation(), META)
    check_actions(chunk(value=0.1), META)
    check_actions(chunk(future_observation={"wrist": np.zeros((4, 4, 3), np.uint8)}), META)


@pytest.mark.parametrize(
    "future", [np.zeros((4, 4, 3), np.float64), np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4))]
)
def test_a_malformed_future_frame_is_refused(future):
    with pytest.raises(BadActions, match="returned a future wrist of"):
        check_actions(chunk(future_observation={"wrist": future}), META)


def test_a_value_that_is_not_finite_is_refused():
    with pytest.raises(BadActions, match="returned the value inf"):
        check_actions(chunk(value=float("inf")), META)


def test_a_flipped_view_is_refused_with_the_likely_reason():
    seen = observation()
    seen.images["primary"] = seen.images["primary"][:, ::-1]
    with pytest.raises(BadObservation, match="flipped or cut as a view"):
        check_observation(seen, META)


def test_a_list_is_no_image():
    seen = observation()
    seen.images["primary"] = [[0]]
    with pytest.raises(BadObservation, match="must be a uint8 array, got list"):
        check_observation(seen, META)
