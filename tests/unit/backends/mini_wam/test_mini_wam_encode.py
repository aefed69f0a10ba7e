# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from mini_wam_parts import manifest, observation
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter.encode import (
    encode_libero,
    join_proprio,
    normalise,
    shrink,
)
from rpent_box.backends.mini_wam.manifest import Statistics
from rpent_box.errors import BadObservation


def reduced(image: NDArray[np.uint8], role: str = "primary") -> NDArray[np.uint8]:
    """Return the frame as the network gets it, colours last again."""
    planes = np.empty((3, 128, 128), np.uint8)
    shrink(image, role, out=planes)
    return planes.transpose(1, 2, 0)


def test_a_frame_of_256_is_reduced_by_the_mean_of_four_pixels_rounded_half_up() -> None:
    image = np.zeros((256, 256, 3), np.uint8)
    image[0:2, 2:4, 1] = [[10, 11], [12, 13]]  # mean 11.5
    image[2:4, 0:2, 2] = [[1, 0], [0, 0]]  # mean 0.25
    image[4:6, 0:2, 0] = 255
    small = reduced(image)
    assert small.shape == (128, 128, 3)
    assert small.dtype == np.uint8
    assert small[0, 1].tolist() == [0, 12, 0]
    assert small[1, 0].tolist() == [0, 0, 0]
    assert small[2, 0].tolist() == [255, 0, 0]


def test_a_frame_of_the_networks_own_size_passes_unchanged() -> None:
    image = np.arange(128 * 128 * 3, dtype=np.uint32).astype(np.uint8).reshape(128, 128, 3)
    assert np.array_equal(reduced(image), image)


def test_larger_multiples_are_reduced_to_the_same_frame() -> None:
    small = np.random.default_rng(0).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    small[0, 0] = 255
    for factor in (2, 3, 4, 16, 17):
        large = small.repeat(factor, 0).repeat(factor, 1)
        assert np.array_equal(reduced(large), small)


@pytest.mark.parametrize("factor", [2, 3, 5, 16, 17])
def test_the_mean_is_that_of_whole_numbers(factor: int) -> None:
    large = np.random.default_rng(1).integers(0, 256, (128 * factor, 128 * factor, 3), np.uint8)
    blocks = large.astype(np.int64).reshape(128, factor, 128, factor, 3).sum((1, 3))
    assert np.array_equal(reduced(large), (blocks + factor**2 // 2) // factor**2)


@pytest.mark.parametrize("shape", [(224, 224), (480, 640), (128, 256), (64, 64), (0, 0)])
def test_other_sizes_are_refused_with_the_sizes_that_fit(shape: tuple[int, int]) -> None:
    with pytest.raises(BadObservation, match=rf"wrist is {shape[0]}x{shape[1]}.*128, 256, 384"):
        reduced(np.zeros((*shape, 3), np.uint8), "wrist")


def test_frames_are_neither_flipped_nor_reordered() -> None:
    image = np.zeros((256, 256, 3), np.uint8)
    image[:128, :, 0] = 200  # red above
    image[:, :128, 2] = 100  # blue on the left
    small = reduced(image)
    assert small[10, 100].tolist() == [200, 0, 0]
    assert small[100, 10].tolist() == [0, 0, 100]


def test_a_batch_holds_primary_then_wrist() -> None:
    encoded = encode_libero([observation(primary=10, wrist=20)], manifest())
    assert encoded.images.shape == (1, 2, 3, 128, 128)
    assert encoded.images[0, 0].max() == 10
    assert encoded.images[0, 1].min() == 20


def test_a_quaternion_and_its_negative_are_the_same_pose() -> None:
    turned = np.array([0.9, 0.1, -0.2, 0.3], np.float32)
    poses = [
        {
            "eef_position": np.zeros(3, np.float32),
            "eef_quaternion_xyzw": quaternion,
            "gripper_qpos": np.zeros(2, np.float32),
        }
        for quaternion in (turned, -turned)
    ]
    assert np.array_equal(join_proprio(poses[0]), join_proprio(poses[1]))
    assert join_proprio(poses[1])[3] == np.float32(0.9)


def test_proprio_is_in_the_order_of_the_schema() -> None:
    joined = join_proprio(
        {
            "gripper_qpos": np.array([8, 9], np.float32),
            "eef_quaternion_xyzw": np.array([4, 5, 6, 7], np.float32),
            "eef_position": np.array([1, 2, 3], np.float32),
        }
    )
    assert joined.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert joined.dtype == np.float32


def test_normalising_uses_the_statistics() -> None:
    statistics = Statistics(proprio_mean=(1.0,) * 9, proprio_deviation=(0.5,) * 9)
    got = normalise(np.full((2, 9), 2.0, np.float32), statistics)
    assert got.dtype == np.float32
    assert (got == 2.0).all()


def test_encoding_does_not_write_into_the_observation() -> None:
    shown = observation(primary=1, wrist=2)
    for array in (*shown.images.values(), *shown.proprio.values()):
        array.flags.writeable = False
    encode_libero([shown, shown], manifest())
