# SPDX-License-Identifier: Apache-2.0
"""What a model does not look through is not drawn, and what it does is the same to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation
from rpent_box.errors import ContractError
from rpent_box.sim.platform import ModelNeeds, Scene
from rpent_box_libero import PLATFORM
from rpent_box_libero.gate import CameraGate, Frame, Sensor
from rpent_box_libero.platform import LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions

pytestmark = pytest.mark.simulator

SCENE = Scene(suite="libero_spatial", task=0, init_state=3, seed=7)
PUSH = np.tile(np.float32([0.6, 0.2, -0.8, 0.1, 0, 0, 1]), (5, 1))
CHUNKS = 3


@pytest.fixture(scope="module")
def platform() -> Iterator[LiberoPlatform]:
    running = PLATFORM.open(LiberoOptions(image_size=96))
    assert isinstance(running, LiberoPlatform)
    yield running
    running.close()


def looking(*roles: str) -> ModelNeeds:
    return ModelNeeds(control=PLATFORM.meta.controls[0], camera_roles=roles, proprio=())


def play(platform: LiberoPlatform) -> tuple[list[Observation], NDArray[np.float64]]:
    """Return what was seen, and the recorded states."""
    seen = [platform.reset(SCENE)]
    for _ in range(CHUNKS):
        applied = platform.apply(PUSH)
        assert applied.observation is not None
        seen.append(applied.observation)
    return seen, platform.recorded_states()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames were drawn, one entry each."""
    frames: list[int] = []
    draw = CameraGate._timed

    def counted(gate: CameraGate, render: Sensor, cache: dict[str, Any]) -> Frame:
        frames.append(1)
        return draw(gate, render, cache)

    monkeypatch.setattr(CameraGate, "_timed", counted)
    return frames


def test_one_camera_alone_is_drawn_and_shows_what_both_would(
    platform: LiberoPlatform, drawn: list[int]
) -> None:
    both, states = play(platform)  # nobody said yet what is looked at
    assert len(drawn) == 2 * len(both)
    for roles in (("primary",), ("wrist",), ("wrist", "primary")):
        platform.prepare(looking(*roles))
        drawn.clear()
        seen, same_states = play(platform)
        assert len(drawn) == len(roles) * len(seen)
        for ours, stock in zip(seen, both, strict=True):
            assert set(ours.images) == set(roles)
            assert set(ours.proprio) == set(PLATFORM.meta.proprio_schema)
            for role in roles:
                assert ours.images[role].tobytes() == stock.images[role].tobytes()
            for name, vector in stock.proprio.items():
                assert ours.proprio[name].tobytes() == vector.tobytes()
        assert same_states.tobytes() == states.tobytes()


def test_a_fresh_scene_that_was_only_ever_drawn_through_one_camera_is_the_same(
    platform: LiberoPlatform,
) -> None:
    platform.prepare(looking("primary", "wrist"))
    both = platform.reset(SCENE)
    fresh = PLATFORM.open(LiberoOptions(image_size=96))
    try:
        fresh.prepare(looking("wrist"))
        alone = fresh.reset(SCENE)
    finally:
        fresh.close()
    assert set(alone.images) == {"wrist"}
    assert alone.images["wrist"].tobytes() == both.images["wrist"].tobytes()


def test_cameras_may_change_between_scenes_and_tasks_and_not_within_an_episode(
    platform: LiberoPlatform,
) -> None:
    other = replace(SCENE, task=1, seed=8)
    wanted = {}
    for scene in (SCENE, other):
        platform.prepare(looking("primary", "wrist"))
        wanted[scene.task] = platform.reset(scene), platform.apply(PUSH).observation
    for scene, roles in ((other, ("wrist",)), (other, ("primary",)), (SCENE, ("wrist", "primary"))):
        platform.prepare(looking(*roles))
        first = platform.reset(scene)
        platform.prepare(looking("wrist"))  # from the next reset on
        then = platform.apply(PUSH).observation
        for ours, stock in zip((first, then), wanted[scene.task], strict=True):
            assert ours is not None
            assert stock is not None
            assert {role: frame.tobytes() for role, frame in ours.images.items()} == {
                role: stock.images[role].tobytes() for role in roles
            }


def test_a_video_shows_every_camera_whatever_the_model_looked_at(platform: LiberoPlatform) -> None:
    platform.prepare(looking("wrist"))
    seen, _ = play(platform)
    video = list(platform.replay(4.0))
    assert len(video) == len(seen)
    for observation, frame in zip(seen, video, strict=True):
        assert set(frame) == {"primary", "wrist"}
        # Drawn one physics step apart.
        difference = np.abs(observation.images["wrist"].astype(int) - frame["wrist"])
        assert difference.mean() < 3


def test_a_model_that_looks_at_nothing_is_shown_no_frame(
    platform: LiberoPlatform, drawn: list[int]
) -> None:
    platform.prepare(looking())
    seen, _ = play(platform)
    assert all(observation.images == {} for observation in seen)
    assert drawn == []


def test_another_controller_is_refused(platform: LiberoPlatform) -> None:
    other = replace(
        looking("primary"), control=replace(PLATFORM.meta.controls[0], action_schema=())
    )
    with pytest.raises(ContractError, match="libero moves in libero.osc_pose.delta.v1"):
        platform.prepare(other)
