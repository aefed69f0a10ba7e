# SPDX-License-Identifier: Apache-2.0
"""Attempts at another task's sentence, in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from rpent_box.contracts.meta import ModelMeta
from rpent_box.contracts.observation import ActionChunk, Actions, Observation
from rpent_box.sim.platform import Scene
from rpent_box.worker.backend import PredictionInput
from rpent_box_libero.platform import LiberoPlatform
from rpent_box_libero.plugin import LiberoOptions
from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.trial import Trial, play_trial

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

pytestmark = pytest.mark.simulator

SUITE, TASK, SAYS, STATE, SEED = "libero_spatial", 0, 1, 3, 7
ASKED = Trial(
    suite=SUITE,
    task=TASK,
    says=SAYS,
    init_state=STATE,
    seed=SEED,
    model="pretended",
    renderer="osmesa",
    versions={},
)
OWN = find_lesson(f"{SUITE}-{TASK}").skill


class Pretended:
    """A policy that answers with what it is given."""

    def __init__(self, act: Callable[[], Actions]) -> None:
        self._act = act
        self.seen: list[Observation] = []

    @property
    def meta(self) -> ModelMeta:
        raise AssertionError("nobody asks")

    def predict(self, request: PredictionInput) -> ActionChunk:
        self.seen.append(request.observation)
        return ActionChunk(actions=self._act())

    def reset(self, session: str) -> None:
        self.seen.clear()

    def drop(self, session: str) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Nothing to free."""


@pytest.fixture(scope="module")
def scene() -> Iterator[TeachingScene]:
    with prepared_process():
        from rpent_box_libero.teaching.scene import TeachingScene

        made = TeachingScene(find_lesson(f"{SUITE}-{TASK}-says-{SAYS}"))
        yield made
        made.close()


def play(scene: TeachingScene, policy: Pretended, *, max_steps: int = 120) -> Trial:
    state = scene.environment.task.init_states()[STATE]
    return play_trial(scene, policy, ASKED, init_state=state, own=OWN, max_steps=max_steps)


def test_the_scene_and_its_steps_are_those_of_an_evaluation(scene: TeachingScene) -> None:
    rng = np.random.default_rng(1)
    actions = rng.uniform(-0.5, 0.5, (2, 10, 7)).astype(np.float32)
    chunks = iter(actions)
    policy = Pretended(lambda: next(chunks))
    assert play(scene, policy, max_steps=20).steps == 20

    platform = LiberoPlatform.open(LiberoOptions())
    try:
        first = platform.reset(Scene(suite=SUITE, task=TASK, init_state=STATE, seed=SEED))
        second = platform.apply(actions[0]).observation
        platform.apply(actions[1])
        last = platform.recorded_states()[-1]
    finally:
        platform.close()
    assert second is not None
    for ours, theirs in zip(policy.seen, (first, second), strict=True):
        assert all(np.array_equal(ours.images[role], theirs.images[role]) for role in ours.images)
        assert ours.instruction != theirs.instruction
    assert scene.environment.state().tobytes() == last.tobytes()


def test_who_does_as_told_lifts_and_places_the_named_bowl(scene: TeachingScene) -> None:
    scene.environment.look_through(())
    policy = Pretended(lambda: scene.skill.act(scene.state())[None].astype(np.float32))
    trial = play(scene, policy)
    assert (trial.lifted, trial.reached) == ("named", "named")
    assert trial == replace(trial, instruction=policy.seen[0].instruction)
    assert "next to the ramekin" in trial.instruction
    assert 20 < trial.steps < 120


def test_who_does_the_scenes_own_task_is_found_out(scene: TeachingScene) -> None:
    scene.environment.look_through(())
    trial = play(scene, Pretended(lambda: OWN.act(scene.state())[None].astype(np.float32)))
    assert (trial.lifted, trial.reached) == ("own", "own")


def test_who_does_nothing_reaches_nothing(scene: TeachingScene) -> None:
    scene.environment.look_through(())
    trial = play(scene, Pretended(lambda: np.zeros((10, 7), np.float32)), max_steps=25)
    assert (trial.lifted, trial.reached, trial.steps) == ("none", "none", 25)
