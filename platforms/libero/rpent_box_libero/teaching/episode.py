# SPDX-License-Identifier: Apache-2.0
"""One demonstration: what was seen at each decision, and what the expert would do from there.

Who acts and who teaches are two roles. The teacher is always the expert. The actor is the expert,
disturbed, or a student (DAgger), so that the rows are from where a student goes and not only from
where an expert would.

There is a decision at every fifth control step. Between two of them lies a segment, calm or
disturbed. A row's label is the expert's next ten actions. Where its segment was calm they are what
was executed, and then what the next row's label begins with; elsewhere the simulator is rolled
forward and put back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from rpent_box.contracts.observation import Actions, Observation
from rpent_box_libero.teaching.disturb import Spells, draw_disturbance, draw_push

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

Array: TypeAlias = NDArray[np.float64]

Student: TypeAlias = Callable[[Observation], Actions]
"""Observation → the actions float32 [steps, 7] that it executes before it looks again."""

CHUNK = 10
"""Actions per label."""
SEGMENT = 5
"""Control steps from one decision to the next."""
STUDENT_NOISE = 0.8
STUDENT_NOISE_SHARE = 0.3
"""Of a student's chunks."""


class Recording(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How episodes are made."""

    max_steps: int = 260
    """The longest task takes an undisturbed expert 173."""
    rows_after_success: int = 2
    noise: float = 1.0
    """Scales all disturbances of an expert's episode, which draws 0, 0.6 or 1 times this."""
    joint_noise_rad: float = 0.03
    """Standard deviation per arm joint at the start, as in the recorded initial states."""
    pushed_share: float = 0.2
    """Share of episodes that begin after a push which no row shows: hands start elsewhere."""
    student_share: float = 0.8
    """Share of episodes in which the student acts, when there is one."""


@dataclass
class Row:
    """One decision."""

    observation: Observation
    thing: Array
    goal: Array
    progress: float
    label: Array | None = None
    """[CHUNK, 7]; None until what comes next is known."""
    executed: Array = field(default_factory=lambda: np.zeros((SEGMENT, 7)))


@dataclass(frozen=True)
class Episode:
    rows: tuple[Row, ...]
    sentence: str
    """What a student is told."""
    initial_state: Array
    """The simulator's state after settling, before any push."""
    level: float
    student_acts: bool
    solved: bool
    steps: int


def record_episode(
    scene: TeachingScene, rng: np.random.Generator, recording: Recording, student: Student | None
) -> Episode:
    """Play one episode in a fresh scene. Everything about it follows from `rng`."""
    sentence = (scene.instruction, scene.instruction_in_name)[int(rng.integers(2))]
    level = recording.noise * float(rng.choice([0.0, 0.6, 1.0]))
    student_acts = rng.random() < recording.student_share and student is not None
    observation, initial_state = _begin(scene, rng, recording)
    actor: _Actor = _Expert(scene, rng, level)
    if student_acts and student is not None:
        actor = _Pupil(scene, rng, student, sentence)
    rows, solved = _play(scene, actor, observation, recording)
    return Episode(
        rows=tuple(rows),
        sentence=sentence,
        initial_state=initial_state,
        level=0.0 if student_acts else level,
        student_acts=student_acts,
        solved=solved,
        steps=scene.steps,
    )


def _begin(
    scene: TeachingScene, rng: np.random.Generator, recording: Recording
) -> tuple[Observation, Array]:
    while True:
        observation = scene.sample(rng, joint_noise_rad=recording.joint_noise_rad)
        initial_state = scene.environment.state()
        if rng.random() >= recording.pushed_share:
            return observation, initial_state
        observation, solved = scene.execute(draw_push(rng))
        if not solved and not scene.skill.is_lost(scene.state()):
            return observation, initial_state


def _play(
    scene: TeachingScene, actor: _Actor, observation: Observation, recording: Recording
) -> tuple[list[Row], bool]:
    """Return the rows, all labelled, and whether the task was solved."""
    rows = [_look(scene, observation)]
    to_come: int | None = None
    """Rows, once the task is solved."""
    lost = False
    while to_come != 0 and not lost and scene.steps < recording.max_steps:
        observation, solved = actor.act(rows[-1])
        rows.append(_look(scene, observation))
        if to_come is not None:
            to_come -= 1
        elif solved:
            to_come = recording.rows_after_success - 1
        else:
            lost = scene.skill.is_lost(scene.state())
    _label(rows, scene)
    if lost:
        rows.pop()  # nothing can be taught there
        rows[-1].executed = np.zeros((SEGMENT, 7))
    return rows, to_come is not None


def _look(scene: TeachingScene, observation: Observation) -> Row:
    state = scene.state()
    thing, goal = scene.skill.places(state)
    progress = scene.skill.progress(state)
    return Row(observation=observation, thing=thing, goal=goal, progress=progress)


def _label(rows: list[Row], scene: TeachingScene) -> None:
    """Label the last row, where the scene is now, and those that were left to what came next."""
    rows[-1].label = scene.label(CHUNK)
    following = rows[-1].label
    for row in reversed(rows[:-1]):
        if row.label is None:
            row.label = np.concatenate([row.executed, following[: CHUNK - SEGMENT]])
        following = row.label


class _Actor(Protocol):
    def act(self, row: Row) -> tuple[Observation, bool]:
        """Execute a segment from `row` and fill in what is known of it; return what is seen then,
        and whether the task was solved."""


class _Expert:
    """Acts itself in calm segments; in others its label is disturbed."""

    def __init__(self, scene: TeachingScene, rng: np.random.Generator, level: float) -> None:
        self._scene = scene
        self._rng = rng
        self._spells = Spells(rng, level)

    def act(self, row: Row) -> tuple[Observation, bool]:
        scene = self._scene
        disturbance = self._spells.draw()
        if disturbance is not None:
            row.label = scene.label(CHUNK)
            row.executed = disturbance.apply(self._rng, row.label[:SEGMENT])
            return scene.execute(row.executed)
        solved = False
        for step in range(SEGMENT):
            row.executed[step] = scene.skill.act(scene.state())
            observation, solved_now = scene.execute(
                row.executed[step : step + 1], render=step == SEGMENT - 1
            )
            solved |= solved_now
        return observation, solved


class _Pupil:
    """The student acts, in chunks of its own length, and the expert labels."""

    def __init__(
        self, scene: TeachingScene, rng: np.random.Generator, student: Student, sentence: str
    ) -> None:
        self._scene = scene
        self._rng = rng
        self._student = student
        self._sentence = sentence
        self._chunk: Array = np.zeros((0, 7))
        """Its actions that are still to be executed."""

    def act(self, row: Row) -> tuple[Observation, bool]:
        row.label = self._scene.label(CHUNK)
        observation, solved, done = row.observation, False, 0
        while done < SEGMENT:
            if not len(self._chunk):
                self._chunk = self._ask(observation)
            actions = self._chunk[: SEGMENT - done]
            self._chunk = self._chunk[len(actions) :]
            observation, solved_now = self._scene.execute(actions)
            row.executed[done : done + len(actions)] = actions
            done += len(actions)
            solved |= solved_now
        return observation, solved

    def _ask(self, observation: Observation) -> Array:
        actions = self._student(replace(observation, instruction=self._sentence)).astype(np.float64)
        if self._rng.random() < STUDENT_NOISE_SHARE:
            actions = draw_disturbance(self._rng, STUDENT_NOISE).apply(self._rng, actions)
        return actions
