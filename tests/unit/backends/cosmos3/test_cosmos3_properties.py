# SPDX-License-Identifier: Apache-2.0
"""What holds for any picture, any rotation and any number, not for chosen ones alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rpent_box.backends.cosmos3.adapter.compose import compose, fit
from rpent_box.backends.cosmos3.adapter.decode import decode_libero, libero_gripper
from rpent_box.backends.cosmos3.adapter.recipe import Recipe
from rpent_box.backends.cosmos3.adapter.rotation import rotation_vectors
from rpent_box.backends.cosmos3.grouping import group_by_prompt
from rpent_box.backends.cosmos3.statistics import Denormaliser
from rpent_box.errors import BadActions

quick = settings(deadline=None, max_examples=60)
SIDES = st.integers(1, 400)
FRAMES = st.sampled_from([(320, 192), (64, 32), (16, 16), (832, 480)])
UNIT = st.floats(-1, 1, width=32)


def matrix_of(vector: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a rotation vector (Rodrigues), in float64."""
    angle = np.linalg.norm(vector)
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def recipe_with(low: np.ndarray, high: np.ndarray, steps: int = 1) -> Recipe:
    return Recipe(
        width_height=(320, 192),
        num_action_chunks=steps,
        denormaliser=Denormaliser(
            method="quantile_rot", low=low.astype(np.float32), high=high.astype(np.float32)
        ),
    )


@quick
@given(
    axis=arrays.arrays(np.float64, 3, elements=st.floats(-1, 1)),
    angle=st.floats(0, np.pi),
    lengths=st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)),
    lean=st.floats(-3, 3),
)
def test_a_rotation_survives_its_six_numbers_however_long_and_leaning_the_columns_are(
    axis: np.ndarray, angle: float, lengths: tuple[float, float], lean: float
) -> None:
    norm = np.linalg.norm(axis)
    axis = np.array([1.0, 0.0, 0.0]) if norm < 1e-3 else axis / norm
    matrix = matrix_of(axis * angle)
    first = matrix[:, 0] * lengths[0]
    second = matrix[:, 1] * lengths[1] + lean * matrix[:, 0]
    rot6d = np.concatenate([first, second]).astype(np.float32)[None]
    (vector,) = rotation_vectors(rot6d)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) <= np.pi + 1e-6
    np.testing.assert_allclose(matrix_of(vector.astype(np.float64)), matrix, atol=2e-5)


@quick
@given(angle=st.floats(np.pi - 1e-3, np.pi), which=st.integers(0, 2), sign=st.sampled_from([-1, 1]))
def test_half_turns_about_each_axis_take_every_branch(angle: float, which: int, sign: int) -> None:
    axis = np.zeros(3)
    axis[which] = sign
    matrix = matrix_of(axis * angle)
    (vector,) = rotation_vectors(np.concatenate([matrix[:, 0], matrix[:, 1]])[None].astype("f4"))
    np.testing.assert_allclose(matrix_of(vector.astype(np.float64)), matrix, atol=2e-5)


@quick
@given(angle=st.floats(1e-7, 2e-3))
def test_small_rotations_keep_their_size(angle: float) -> None:
    matrix = matrix_of(np.array([0.0, 0.0, angle]))
    (vector,) = rotation_vectors(np.concatenate([matrix[:, 0], matrix[:, 1]])[None].astype("f4"))
    np.testing.assert_allclose(vector, [0, 0, angle], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([0, 0, 0, 0, 1, 0], "first column"),
        ([1, 0, 0, 0, 0, 0], "second column"),
        ([1, 2, 3, 2, 4, 6], "parallel"),
        ([1, 2, 3, -1, -2, -3], "parallel"),
        ([1, 0, 0, 1, 1e-8, 0], "parallel"),
        ([1e-20, 0, 0, 0, 1, 0], "first column"),
    ],
)
def test_six_numbers_that_are_no_rotation_are_refused_with_the_step(
    columns: list[float], why: str
) -> None:
    good = [1, 0, 0, 0, 1, 0]
    with pytest.raises(BadActions, match=f"step 1.*{why}"):
        rotation_vectors(np.array([good, columns], np.float32))


@quick
@given(height=SIDES, width=SIDES, frame=FRAMES, seed=st.integers(0, 9))
def test_any_picture_fits_into_the_frame_and_is_never_enlarged(
    height: int, width: int, frame: tuple[int, int], seed: int
) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    found = fit(image, frame)
    assert found.shape == (frame[1], frame[0], 3)
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous
    if height <= frame[1] and width <= frame[0]:
        np.testing.assert_array_equal(found[:height, :width], image)
    # What was filled repeats colours of the picture itself: no black bars.
    assert found.min() >= fit_content(found, height, width, frame).min()


def fit_content(found: np.ndarray, height: int, width: int, frame: tuple[int, int]) -> np.ndarray:
    scale = min(frame[0] / width, frame[1] / height, 1.0)
    return found[: max(1, int(height * scale + 0.5)), : max(1, int(width * scale + 0.5))]


@quick
@given(height=SIDES, width=SIDES, seed=st.integers(0, 9))
def test_two_views_lie_side_by_side_the_third_person_on_the_left(
    height: int, width: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    views = [generator.integers(0, 256, (height, width, 3), np.uint8) for _ in range(2)]
    found = compose(views, (2 * width, height))
    np.testing.assert_array_equal(found[:, :width], views[0])
    np.testing.assert_array_equal(found[:, width:], views[1])


@quick
@given(values=arrays.arrays(np.float32, (4, 10), elements=st.floats(-50, 50, width=32)))
def test_positions_go_through_the_quantiles_and_nothing_is_limited(values: np.ndarray) -> None:
    low, high = np.full(10, -0.5), np.full(10, 1.5)
    values[:, 3:9] = [0, -0.5, -0.5, -0.5, 0, -0.5]  # a rotation whatever the rest
    actions = decode_libero(values, recipe_with(low, high, 4))
    wanted = (values[:, :3].astype(np.float64) + 1) / 2 * 2.0 - 0.5
    np.testing.assert_allclose(actions[:, :3], wanted, rtol=1e-5, atol=1e-5)
    assert set(np.unique(actions[:, 6])) <= {-1.0, 0.0, 1.0}


@quick
@given(raw=arrays.arrays(np.float32, (3, 10), elements=UNIT))
def test_denormalising_undoes_normalising(raw: np.ndarray) -> None:
    low, high = np.linspace(-2, -1, 10), np.linspace(1, 2, 10)
    normalised = ((raw - low) / (high - low) * 2 - 1).astype(np.float32)
    found = recipe_with(low, high).denormaliser.undo(normalised)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, raw, atol=1e-6)


@quick
@given(values=arrays.arrays(np.float32, (2, 10), elements=st.floats(-5, 5, width=32)))
def test_a_zero_range_gives_its_one_value(values: np.ndarray) -> None:
    level = np.array([0.25, 0.5, -1.0, 1, 0, 0, 0, 1, 0, 1.0])
    actions = decode_libero(values, recipe_with(level, level, 2))
    np.testing.assert_allclose(actions, [[0.25, 0.5, -1.0, 0, 0, 0, -1.0]] * 2, atol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", range(10))
def test_no_bad_number_gets_through_not_even_as_a_gripper(bad: float, column: int) -> None:
    values = np.full((3, 10), 0.5, np.float32)
    values[:, 3:9] = [1, 0, 0, 0, 1, 0]
    values[1, column] = bad
    with pytest.raises(BadActions, match=f"step 1, column {column}"):
        decode_libero(values, recipe_with(np.full(10, -1.0), np.full(10, 1.0)))


def test_a_number_that_overflows_in_denormalising_is_refused() -> None:
    values = np.full((1, 10), 3e38, np.float32)
    with pytest.raises(BadActions, match="inf|nan"):
        decode_libero(values, recipe_with(np.full(10, -100.0), np.full(10, 100.0)))


@pytest.mark.parametrize("shape", [(16,), (16, 9), (0, 10), (2, 16, 10)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadActions, match="shape"):
        decode_libero(np.zeros(shape, np.float32), recipe_with(np.zeros(10), np.ones(10)))


@quick
@given(openness=st.floats(0, 1, width=32))
def test_the_gripper_opens_above_a_half_and_closes_below(openness: float) -> None:
    (found,) = libero_gripper(np.array([openness], np.float32))
    assert found == (-1.0 if openness > 0.5 else 1.0 if openness < 0.5 else 0.0)


@quick
@given(prompts=st.lists(st.sampled_from("abc"), max_size=12), most=st.integers(1, 5))
def test_groups_hold_everyone_once_one_prompt_each_and_never_too_many(
    prompts: list[str], most: int
) -> None:
    groups = group_by_prompt(prompts, most)
    assert sorted(place for group in groups for place in group) == list(range(len(prompts)))
    for group in groups:
        assert len(group) <= most
        assert group == sorted(group)
        assert len({prompts[place] for place in group}) == 1
