# SPDX-License-Identifier: Apache-2.0
"""The teacher in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rpent_box.contracts.observation import Observation
from rpent_box.errors import SimulatorError
from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.episode import Recording, record_episode
from rpent_box_libero.teaching.judge import judge
from rpent_box_libero.teaching.lessons import find_lesson

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

pytestmark = pytest.mark.simulator

CHUNK = 10


@pytest.fixture(scope="module")
def scene() -> Iterator[TeachingScene]:
    """The scene with the drawer, where most can go wrong."""
    with prepared_process():
        from rpent_box_libero.tasks import Task
        from rpent_box_libero.teaching.scene import TeachingScene

        def refuse(task: Task) -> None:
            raise AssertionError("the teacher read the recorded initial states")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Task, "init_states", refuse)
            made = TeachingScene(find_lesson("libero_spatial-4"))
            yield made
            made.close()
            made.close()


def sample(scene: TeachingScene, number: int) -> Observation:
    return scene.sample(np.random.default_rng([4, number]), joint_noise_rad=0.03, render=False)


def play(scene: TeachingScene, steps: int) -> bool:
    return any(
        scene.execute(scene.skill.act(scene.state())[None], render=False)[1] for _ in range(steps)
    )


def whole(scene: TeachingScene) -> bytes:
    """Positions, velocities and motors after three more steps."""
    play(scene, 3)
    data = scene.sim.data
    return b"".join(part.tobytes() for part in (data.qpos, data.qvel, data.ctrl))


def test_the_expert_solves_a_fresh_scene(scene: TeachingScene) -> None:
    sample(scene, 0)
    assert play(scene, 140)


def test_a_label_is_what_the_expert_then_does_and_leaves_the_scene_alone(
    scene: TeachingScene,
) -> None:
    sample(scene, 0)
    for chunk in range(6):
        label = scene.label(CHUNK)
        assert np.array_equal(scene.label(CHUNK), label), chunk
        done = []
        for action in label:
            done.append(scene.skill.act(scene.state()))
            scene.execute(action[None], render=False)
        assert np.abs(np.array(done) - label).max() < 1e-6, chunk


def test_a_scene_goes_on_after_a_label_as_without_one_to_the_last_bit(
    scene: TeachingScene,
) -> None:
    for steps in (0, 45):
        ends = []
        for labels in (0, 2):
            sample(scene, 1)
            play(scene, steps)
            for _ in range(labels):
                scene.label(CHUNK)
            ends.append(whole(scene))
        assert ends[0] == ends[1], steps


def test_an_episode_is_the_same_whatever_was_played_before(scene: TeachingScene) -> None:
    def record(seed: int) -> tuple[np.ndarray, np.ndarray]:
        made = record_episode(scene, np.random.default_rng(seed), Recording(max_steps=10), None)
        labels = np.stack([row.label for row in made.rows if row.label is not None])
        frames = np.stack([row.observation.images["primary"] for row in made.rows])
        return labels, frames

    first = record(11)
    record(12)
    for left, right in zip(first, record(11), strict=True):
        assert np.array_equal(left, right)


def test_a_lesson_that_is_lost_in_every_scene_is_an_error_and_no_endless_search(
    scene: TeachingScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpent_box_libero.teaching.scene.MOST_DRAWS", 2)
    monkeypatch.setattr(type(scene.skill), "is_lost", lambda skill, state: True)
    with pytest.raises(SimulatorError, match="none of 2 scenes .* libero_spatial-4"):
        sample(scene, 0)


def test_scenes_differ_in_things_fixtures_and_joints(scene: TeachingScene) -> None:
    def look(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shown = sample(scene, number)
        fixtures = scene.sim.model.body_pos.copy()
        bowl = scene.state().thing("akita_black_bowl_1").position
        return bowl, fixtures, shown.proprio["joint_positions"]

    for left, right in zip(look(0), look(1), strict=True):
        assert np.abs(left - right).max() > 1e-4


def test_a_state_holds_what_the_simulator_says_and_keeps_it(scene: TeachingScene) -> None:
    sample(scene, 2)
    state = scene.state()
    data, model = scene.sim.data, scene.sim.model
    for name in ("akita_black_bowl_2_main", "wooden_cabinet_1_cabinet_top"):
        pose, row = state.bodies[name], model.body_name2id(name)
        assert np.array_equal(pose.position, data.body_xpos[row])
        assert np.array_equal(pose.rotation, data.body_xmat[row].reshape(3, 3))
    site = model.site_name2id("wooden_cabinet_1_top_region")
    position = state.sites["wooden_cabinet_1_top_region"].position
    assert np.array_equal(position, data.site_xpos[site])
    opened = state.joints["wooden_cabinet_1_top_level"]
    assert opened == data.get_joint_qpos("wooden_cabinet_1_top_level")
    assert opened < -0.1
    assert 0.07 < state.aperture < 0.09
    before = state.hand.copy(), position.copy()
    scene.step_blind(np.array([0, 0, 1.0, 0, 0, 0, 1]))
    scene.step_blind(np.array([0, 0, 1.0, 0, 0, 0, 1]))
    assert scene.state().hand[2] > before[0][2]
    assert np.array_equal(state.hand, before[0])
    assert np.array_equal(position, before[1])


def test_another_tasks_sentence_is_told_and_its_own_skill_says_when_it_is_done() -> None:
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        scene = TeachingScene(find_lesson("libero_spatial-0-says-1"))
        try:
            shown = sample(scene, 0)
            assert "next to the ramekin" in scene.instruction
            assert "next to the ramekin" in scene.instruction_in_name
            assert scene.instruction != scene.instruction_in_name
            assert shown.instruction == scene.instruction
            assert play(scene, 130)
            assert not scene.environment.is_solved()
        finally:
            scene.close()


def test_the_judge_says_at_which_step_a_scene_was_solved() -> None:
    verdict = judge("libero_spatial-2", scenes=1, seed=5)
    assert verdict.solved == 1
    assert 40 < verdict.mean_steps < 110
    assert judge("libero_spatial-2", scenes=1, seed=5, max_steps=20).solved_at == (None,)
