# SPDX-License-Identifier: Apache-2.0
"""One demonstration: what was seen at each decision, and what the expert would do from there.

Who acts and who teaches are two roles. The teacher is always the expert. The actor is the expert
with noise, or a student (DAgger), so that the rows are from where a student goes and not only from
where an expert would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rpent_box.contracts.observation import Actions, Observation
from rpent_box_libero.teaching.disturb import disturb

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

Student: TypeAlias = Callable[[Observation], Actions]
"""Observation → actions float32 [CHUNK, 7]."""

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Column name → array whose first axis is the row."""

CHUNK = 10
"""Actions per label."""
SHORT_CHUNK = 5
SHORT_CHUNK_SHARE = 0.3
DECISIONS_AFTER_SUCCESS = 2
STUDENT_NOISE = 0.8
STUDENT_NOISE_SHARE = 0.3


class Recording(Struct, frozen=True, kw_only=True):
    """How episodes are made."""

    max_steps: int = 160
    noise: float = 1.0
    """Scales all disturbances; each episode draws 0, 0.6 or 1 times this."""
    joint_noise_rad: float = 0.03
    """Standard deviation per arm joint at the start, as in the recorded initial states."""
    student_share: float = 0.8
    """Share of episodes in which the student acts, when there is one."""


@dataclass(frozen=True)
class Decision:
    """One row."""

    observation: Observation
    label: NDArray[np.float64]
    thing: NDArray[np.float64]
    goal: NDArray[np.float64]
    progress: float


@dataclass(frozen=True)
class Episode:
    columns: Columns
    solved: bool
    steps: int


def record_episode(
    scene: TeachingScene,
    rng: np.random.Generator,
    recording: Recording,
    student: Student | None,
) -> Episode:
    """Play one episode in a fresh scene. Everything about it follows from `rng`."""
    observation = scene.sample(rng, joint_noise_rad=recording.joint_noise_rad)
    level = recording.noise * float(rng.choice([0.0, 0.6, 1.0]))
    student_acts = rng.random() < recording.student_share
    actor = student if student_acts else None
    decisions: list[Decision] = []
    followed: list[bool] = []
    """Whether the next row shows what comes of this row's label."""
    after_success = 0
    while True:
        decision = _decide(scene, observation)
        decisions.append(decision)
        actions, calm = _act(rng, decision, level, actor)
        steps = SHORT_CHUNK if rng.random() < SHORT_CHUNK_SHARE else CHUNK
        observation, solved_now = scene.execute(actions[:steps])
        after_success += int(solved_now or after_success > 0)
        over = (
            after_success >= DECISIONS_AFTER_SUCCESS
            or scene.steps >= recording.max_steps
            or scene.expert.is_lost(scene.state())
        )
        followed.append(calm and steps == CHUNK and not over)
        if over:
            break
    columns = _columns(decisions, followed, student_acts=actor is not None)
    return Episode(columns=columns, solved=after_success > 0, steps=scene.steps)


def _decide(scene: TeachingScene, observation: Observation) -> Decision:
    state = scene.state()
    return Decision(
        observation=observation,
        label=scene.label(CHUNK),
        thing=state.thing,
        goal=state.goal,
        progress=scene.expert.progress(state),
    )


def _act(
    rng: np.random.Generator, decision: Decision, level: float, student: Student | None
) -> tuple[NDArray[np.float64], bool]:
    """Return the actions [CHUNK, 7] to execute, and whether they lead where the label does."""
    if student is None:
        return disturb(rng, decision.label, level)
    actions = student(decision.observation).astype(np.float64)
    if rng.random() < STUDENT_NOISE_SHARE:
        actions, _ = disturb(rng, actions, STUDENT_NOISE)
    near = float(np.abs(actions[:, :3] - decision.label[:, :3]).mean()) < 0.15
    same_grip = float((actions[:, 6] == decision.label[:, 6]).mean()) > 0.85
    return actions, near and same_grip


def _columns(decisions: list[Decision], followed: list[bool], *, student_acts: bool) -> Columns:
    rows = len(decisions)
    first = decisions[0].observation
    columns: Columns = {
        "actions": np.stack([decision.label for decision in decisions]).astype(np.float32),
        "thing_position": np.stack([decision.thing for decision in decisions]).astype(np.float32),
        "goal_position": np.stack([decision.goal for decision in decisions]).astype(np.float32),
        "progress": np.array([decision.progress for decision in decisions], np.float32),
        "next_row": np.where(followed, np.arange(1, rows + 1), -1).astype(np.int64),
        "student_acts": np.full(rows, student_acts),
    }
    for role in first.images:
        frames = [decision.observation.images[role] for decision in decisions]
        columns[f"image_{role}"] = np.stack(frames)
    for name in first.proprio:
        vectors = [decision.observation.proprio[name] for decision in decisions]
        columns[name] = np.stack(vectors)
    return columns
