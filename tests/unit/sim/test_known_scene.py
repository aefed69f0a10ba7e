# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from rpent_box.sim.known_scene import (
    coarse,
    compare_frames,
    compare_states,
    draws_in_software,
    frame_sha256,
)

STATE = [0.5, 1.0, -2.0]
FRAME = np.full((16, 16, 3), 100)


def test_a_state_within_the_tolerance_is_the_same() -> None:
    assert compare_states("the settled state", STATE, [0.5, 1.0, -2.0005], tolerance=1e-3) == []


def test_a_state_beyond_it_is_physics_and_says_by_how_much() -> None:
    (finding,) = compare_states("the settled state", STATE, [0.5, 1.0, -2.02], tolerance=1e-3)
    assert str(finding) == ("physics: the settled state is off by 0.02; at most 1e-03 was expected")


@pytest.mark.parametrize(
    ("got", "said"),
    [([0.5, float("nan"), -2.0], "off by nan"), ([0.5, 1.0], "has 2 numbers, not 3")],
)
def test_a_state_that_is_no_number_or_of_another_length_is_a_finding(
    got: list[float], said: str
) -> None:
    (finding,) = compare_states("the state", STATE, got, tolerance=1e-3)
    assert (finding.part, said in finding.message) == ("physics", True)


@pytest.mark.parametrize(("by", "differs"), [(2, False), (-2, False), (3, True), (-3, True)])
def test_a_frame_may_be_two_grey_levels_off_on_average(by: int, differs: bool) -> None:  # noqa: FBT001
    findings = compare_frames("camera wrist", FRAME, FRAME + by)
    assert [str(finding) for finding in findings] == [
        "renderer: camera wrist is off by 3.0 grey levels on average; at most 2 was expected"
    ] * differs


def test_unsigned_frames_do_not_wrap_around() -> None:
    dark, light = np.zeros((16, 16, 3), np.uint8), np.full((16, 16, 3), 255, np.uint8)
    (finding,) = compare_frames("camera wrist", light, dark)
    assert "255.0 grey levels" in finding.message


def test_a_coarse_frame_holds_the_means_of_blocks_and_cuts_what_is_left_over() -> None:
    frame = np.zeros((241, 325, 3), dtype=np.uint8)
    frame[:15, :20, 1] = 100
    frame[240:, :, 0] = 255
    found = coarse(frame)
    assert (found.shape, found.dtype) == ((16, 16, 3), np.uint8)
    assert found[0, 0].tolist() == [0, 100, 0]
    assert found.sum() == 100


def test_a_frame_is_known_by_its_bytes() -> None:
    frame = np.zeros((2, 2, 3), dtype=np.uint8)
    other = frame.copy()
    other[1, 1, 2] = 1
    assert frame_sha256(frame) == frame_sha256(frame.copy()) != frame_sha256(other)


def test_software_renderers_are_told_by_their_names() -> None:
    assert draws_in_software("osmesa: Mesa, llvmpipe (LLVM 15.0.6, 256 bits)")
    assert draws_in_software("sapien: Lavapipe")
    assert not draws_in_software("egl: NVIDIA H200")
