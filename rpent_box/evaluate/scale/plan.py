# SPDX-License-Identifier: Apache-2.0
"""What an evaluation plays: everything that decides its results, and nothing of how it is done."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from rpent_box.contracts.control_messages import EpisodePlayed, PlayEpisode, Video
from rpent_box.sim.platform import Scene


class TaskKey(NamedTuple):
    """A task, within the evaluation's platform. Simulators keep the scene of one of them."""

    suite: str
    task: int


class JobKey(NamedTuple):
    """Identifies an episode of an evaluation; no two have the same."""

    suite: str
    task: int
    init_state: int
    seed: int


class Job(Struct, frozen=True, kw_only=True):
    """One episode to be played."""

    episode: int
    """Its index within the evaluation, which also names its folder."""
    suite: str
    task: int
    init_state: int
    seed: int
    max_steps: int

    @property
    def key(self) -> JobKey:
        return JobKey(self.suite, self.task, self.init_state, self.seed)

    @property
    def task_key(self) -> TaskKey:
        return TaskKey(self.suite, self.task)

    @property
    def scene(self) -> Scene:
        """What fixes its scene."""
        return Scene(suite=self.suite, task=self.task, init_state=self.init_state, seed=self.seed)


def key_of(played: EpisodePlayed) -> JobKey:
    """Return which job `played`, or a row of results, is the outcome of."""
    return JobKey(played.suite, played.task, played.init_state, played.seed)


class TaskPlan(Struct, frozen=True, kw_only=True):
    """The episodes of one task."""

    suite: str
    task: int
    name: str
    first_init_state: int
    episodes: int
    """Init states in turn; each is played once per seed of the plan."""
    max_steps: int


class EvalPlan(Struct, frozen=True, kw_only=True):
    """What was asked. Two evaluations with equal plans on equal programs have equal results."""

    platform: str
    tasks: tuple[TaskPlan, ...]
    seeds: tuple[int, ...]
    execute_steps: int | None
    video: Video
    show_predictions: bool = False
    backend: str | None = None
    checkpoint: str | None = None
    device: str | None = None
    """Where the worker computes, `cpu` or `cuda`; None: it is borrowed."""
    threads: int | None = None
    """CPU threads of the worker; None: it is borrowed."""
    endpoint: str | None = None
    backend_arguments: tuple[str, ...] = ()
    platform_arguments: tuple[str, ...] = ()
    prediction_timeout_s: float | None = None

    @property
    def suites(self) -> tuple[str, ...]:
        """In the order in which they are played, each once."""
        return tuple(dict.fromkeys(task.suite for task in self.tasks))

    def jobs(self) -> tuple[Job, ...]:
        """Return every episode, in order: by task, by init state, by seed."""
        jobs: list[Job] = []
        for task in self.tasks:
            for state in range(task.first_init_state, task.first_init_state + task.episodes):
                for seed in self.seeds:
                    jobs.append(
                        Job(
                            episode=len(jobs),
                            suite=task.suite,
                            task=task.task,
                            init_state=state,
                            seed=seed,
                            max_steps=task.max_steps,
                        )
                    )
        return tuple(jobs)

    def play(self, job: Job, output_dir: str) -> PlayEpisode:
        """Return what to ask a simulator for; `output_dir` is as the simulator sees it."""
        return PlayEpisode(
            suite=job.suite,
            task=job.task,
            init_state=job.init_state,
            episode=job.episode,
            seed=job.seed,
            max_steps=job.max_steps,
            execute_steps=self.execute_steps,
            video=self.video,
            show_predictions=self.show_predictions,
            output_dir=output_dir,
        )
