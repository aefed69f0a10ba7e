# SPDX-License-Identifier: Apache-2.0
"""One attempt at another task's sentence: which thing does a policy go for?

The scene is a recorded one and is played as an evaluation plays it; only the sentence is another
task's, whose target stands in the scene as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from rpent_box.contracts.messages import EpisodeKey
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import Backend, PredictionInput
from rpent_box_libero.teaching.skill import Skill
from rpent_box_libero.teaching.state import SceneState, Vector3

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

LIFTED_M = 0.03
"""A thing this far above where it stood has been lifted."""
AT_M = 0.08
"""Within this distance of a thing's centre is the point that an expert goes to for it."""
SESSION = "trial"

Lifted: TypeAlias = Literal["named", "own", "both", "other", "none"]
"""Whose the first lifted thing is: the sentence's, the scene's own task's; `both` where these are
one thing; `other`: neither's."""
Reached: TypeAlias = Literal["named", "own", "none"]
"""Whose goal held first."""


class Conditions(Struct, frozen=True, kw_only=True):
    """What decides all attempts that are counted together."""

    model: str
    """The backend and the hash of its weights."""
    seed: int
    renderer: str
    """As in a recipe of demonstrations."""
    versions: dict[str, str]
    """Package → its version, of what decides the physics and the pixels."""


class Trial(Conditions, frozen=True, kw_only=True):
    """How one attempt went."""

    suite: str
    task: int
    """Whose scene it was."""
    says: int
    """Whose sentence was said."""
    init_state: int
    instruction: str = ""
    """As it was said."""
    lifted: Lifted = "none"
    reached: Reached = "none"
    steps: int = 0


class Onlooker:
    """Watches the things of a scene from its first settled state on."""

    def __init__(self, start: SceneState, *, named: Skill, own: Skill) -> None:
        self._named, self._start = named, start
        self._things = {
            "named": thing_at(start, named.places(start)[0]),
            "own": thing_at(start, own.places(start)[0]),
        }
        self.lifted: Lifted = "none"
        self.reached: Reached = "none"

    def see(self, state: SceneState, *, solved: bool) -> None:
        """Look at the state after a step; `solved`: the scene's own goal holds."""
        if self.lifted == "none":
            self.lifted = self._whose(state)
        if self.reached == "none":
            self.reached = "named" if self._named.is_done(state) else "own" if solved else "none"

    def _whose(self, state: SceneState) -> Lifted:
        lifted = [name for name in _things(state) if self._rise(name, state) > LIFTED_M]
        if not lifted:
            return "none"
        named, own = (self._things[whose] in lifted for whose in ("named", "own"))
        return "both" if named and own else "named" if named else "own" if own else "other"

    def _rise(self, name: str, state: SceneState) -> float:
        return float((state.bodies[name].position - self._start.bodies[name].position)[2])


def thing_at(state: SceneState, place: Vector3) -> str | None:
    """Return the body of the thing whose centre is nearest to `place`; None: none is close."""
    distances = {
        name: float(np.linalg.norm(state.bodies[name].position - place)) for name in _things(state)
    }
    nearest = min(distances, key=lambda name: distances[name], default=None)
    return nearest if nearest is not None and distances[nearest] < AT_M else None


def play_trial(
    scene: TeachingScene,
    backend: Backend,
    asked: Trial,
    *,
    init_state: NDArray[np.float64],
    own: Skill,
    max_steps: int,
) -> Trial:
    """Play what `asked` says from `init_state` until a goal holds or the steps are spent.

    `scene` is of the lesson with the other task's sentence; `own` is the skill of the scene's own.
    Returns `asked` with its outcome.
    """
    environment = scene.environment
    environment.reset(seed=asked.seed, init_state=init_state)
    backend.reset(SESSION)
    onlooker = Onlooker(scene.state(), named=scene.skill, own=own)
    steps = chunks = 0
    while onlooker.reached == "none" and steps < max_steps:
        rows = _act(backend, environment.observe(), asked, chunk=chunks)[: max_steps - steps]
        chunks += 1
        for number, row in enumerate(rows, 1):
            solved = environment.step(row, render=number == len(rows))
            steps += 1
            onlooker.see(scene.state(), solved=solved)
            if onlooker.reached != "none":
                break
    return replace(
        asked,
        instruction=scene.instruction,
        lifted=onlooker.lifted,
        reached=onlooker.reached,
        steps=steps,
    )


def _act(backend: Backend, shown: Observation, asked: Trial, *, chunk: int) -> NDArray[np.float32]:
    key = EpisodeKey(
        seed=asked.seed,
        suite=asked.suite,
        task=asked.task,
        episode=asked.init_state,
        chunk=chunk,
    )
    return backend.predict(PredictionInput(observation=shown, session=SESSION, episode=key)).actions


def _things(state: SceneState) -> list[str]:
    return [name for name in state.bodies if name.endswith("_main")]
