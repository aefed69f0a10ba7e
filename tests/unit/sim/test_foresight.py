# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from rpent_box.contracts.observation import ActionChunk, Observation
from rpent_box.sim.foresight import MOST_DB, Foresight, reduced


def grey(level, size=8, width=None):
    return np.full((size, width or size, 3), level, np.uint8)


def seen(level, **more):
    return Observation(images={"primary": grey(level, 16), **more}, proprio={}, instruction="go")


def chunk(level=None, *, value=None, steps=4, **more):
    future = ({} if level is None else {"primary": grey(level)}) | more
    return ActionChunk(
        actions=np.zeros((steps, 2), np.float32), future_observation=future or None, value=value
    )


def test_a_reduced_frame_holds_the_mean_of_what_each_pixel_covers():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (12, 8, 3), np.uint8)
    small = reduced(image, 4, 4)
    wanted = image.reshape(4, 3, 4, 2, 3).mean((1, 3))
    assert small.shape == (4, 4, 3)
    assert small.dtype == np.uint8
    assert np.abs(small - wanted).max() <= 0.5 + 1e-4
    assert np.array_equal(reduced(image, 12, 8), image)


def test_pixels_that_are_covered_in_part_count_in_part():
    image = np.zeros((1, 3, 3), np.uint8)
    image[0, 1] = 90
    assert reduced(image, 1, 2)[0, :, 0].tolist() == [30, 30]


def test_what_was_expected_is_compared_with_what_came_and_with_standing_still():
    foresight = Foresight()
    foresight.predicted(0, chunk(110), seen(80))
    foresight.came(4, seen(100))
    foresight.predicted(4, chunk(130), seen(100))
    foresight.came(8, seen(120))
    assert foresight.expected_db == pytest.approx(10 * np.log10(255**2 / 100))
    assert foresight.copied_db == pytest.approx(10 * np.log10(255**2 / 400))


def test_the_error_is_the_mean_over_the_episode_and_not_the_mean_of_decibels():
    foresight = Foresight()
    for step, expected in ((0, 100), (4, 120)):
        foresight.predicted(step, chunk(expected), seen(100))
        foresight.came(step + 4, seen(100))
    assert foresight.expected_db == pytest.approx(10 * np.log10(255**2 / 200))
    assert foresight.copied_db == MOST_DB


def test_an_expectation_waits_for_the_end_of_its_chunk_whatever_is_seen_before():
    foresight = Foresight()
    foresight.predicted(0, chunk(50), seen(10))
    foresight.came(2, seen(20))
    assert foresight.expected_db is None
    foresight.predicted(2, chunk(60), seen(20))
    foresight.came(4, seen(50))
    assert [moment.came != {} for moment in foresight.moments] == [True, False]
    assert foresight.expected_db == MOST_DB
    assert foresight.moments[0].now["primary"][0, 0, 0] == 10


def test_an_episode_that_ends_before_has_nothing_to_compare():
    foresight = Foresight()
    foresight.predicted(0, chunk(50, value=0.5), seen(10))
    assert (foresight.expected_db, foresight.copied_db) == (None, None)


def test_only_cameras_that_are_shown_are_compared():
    foresight = Foresight()
    foresight.predicted(0, chunk(50, depth=grey(1)), seen(10))
    foresight.came(4, seen(50))
    assert list(foresight.moments[0].expected) == ["primary"]
    foresight.predicted(4, chunk(None, depth=grey(1)), seen(10))
    assert len(foresight.moments) == 1


def test_a_value_alone_is_a_moment_and_actions_alone_are_none():
    foresight = Foresight()
    foresight.predicted(0, chunk(), seen(10))
    foresight.predicted(4, chunk(value=0.25), seen(10))
    foresight.came(8, seen(10))
    assert [(one.step, one.due, one.value, one.came) for one in foresight.moments] == [
        (4, 8, 0.25, {})
    ]
    assert foresight.expected_db is None


def test_frames_are_kept_small_and_apart_from_the_observations():
    foresight = Foresight()
    first, second = seen(10), seen(50)
    foresight.predicted(0, chunk(50), first)
    foresight.came(4, second)
    for one in (first, second):
        one.images["primary"][:] = 255
    (moment,) = foresight.moments
    assert moment.now["primary"].shape == (8, 8, 3)
    assert (moment.now["primary"] == 10).all()
    assert (moment.came["primary"] == 50).all()
