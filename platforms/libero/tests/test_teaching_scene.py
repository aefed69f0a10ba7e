# SPDX-License-Identifier: Apache-2.0
"""The teacher in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rpent_box.contracts.observation import Observation
from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.episode import Recording, record_episode
from rpent_box_libero.teaching.expert import Expert
from rpent_box_libero.teaching.lessons import find_lesson

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

pytestmark = pytest.mark.simulator

CHUNK = 10


@pytest.fixture(scope="module")
def scene() -> Iterator[TeachingScene]:
    with prepared_process():
        from rpent_box_libero.tasks import Task
        from rpent_box_libero.teaching.scene import TeachingScene

        def refuse(task: Task) -> None:
            raise AssertionError("the teacher read the recorded initial states")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Task, "init_states", refuse)
            made = TeachingScene(find_lesson("libero_spatial", 0), Expert())
            yield made
            made.close()
            made.close()


def sample(scene: TeachingScene, number: int) -> Observation:
    return scene.sample(np.random.default_rng([4, number]), joint_noise_rad=0.03)


def test_the_expert_solves_fresh_scenes(scene: TeachingScene) -> None:
    for number in range(4):
        sample(scene, number)
        solved = False
        while not solved and scene.steps < 90:
            solved = scene.execute(scene.expert.act(scene.state())[None])[1]
        assert solved, number


def test_a_label_is_what_the_expert_then_does_and_leaves_the_scene_alone(
    scene: TeachingScene,
) -> None:
    sample(scene, 0)
    for chunk in range(5):
        label = scene.label(CHUNK)
        assert np.array_equal(scene.label(CHUNK), label), chunk
        done = []
        for action in label:
            done.append(scene.expert.act(scene.state()))
            scene.execute(action[None])
        assert np.abs(np.array(done) - label).max() < 1e-6, chunk


def test_an_episode_is_the_same_whatever_was_played_before(scene: TeachingScene) -> None:
    def record(seed: int) -> dict[str, np.ndarray]:
        made = record_episode(scene, np.random.default_rng(seed), Recording(max_steps=20), None)
        return made.columns

    first = record(11)
    record(12)
    again = record(11)
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_scenes_differ_in_things_fixtures_and_joints(scene: TeachingScene) -> None:
    def look(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shown = sample(scene, number)
        fixtures = scene.sim.model.body_pos.copy()
        return scene.state().thing, fixtures, shown.proprio["joint_positions"]

    for left, right in zip(look(0), look(1), strict=True):
        assert np.abs(left - right).max() > 1e-4


def test_progress_ends_near_one(scene: TeachingScene) -> None:
    sample(scene, 2)
    shown = [scene.expert.progress(scene.state())]
    solved = False
    while not solved and scene.steps < 90:
        solved = scene.execute(scene.label(CHUNK))[1]
        shown.append(scene.expert.progress(scene.state()))
    assert shown[0] < 0.4
    assert shown[-1] > 0.9
