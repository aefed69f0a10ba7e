# SPDX-License-Identifier: Apache-2.0
"""Write demonstrations: `python -m rpent_box_libero.teaching.demonstrate --out DIR --episodes N`.

Shards that are already there are skipped, so a stopped run goes on where it was. Each episode has
its own seed, so the rows depend neither on the number of workers nor on the order of episodes.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from rpent_box.errors import OutputError, ProgramDied, RpentBoxError
from rpent_box_libero.plugin import PLATFORM
from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.episode import Columns, Recording, Student, record_episode
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.shards import ShardHeader, is_finished, shard_path, write_shard
from rpent_box_libero.teaching.student import NO_STUDENT, StudentSource, identify, load_student

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

EPISODES_PER_SHARD = 8
RUN_DEADLINE_S = 24 * 3600.0


class Job(Struct, frozen=True, kw_only=True):
    """What a worker process is told about one shard."""

    out: str
    header: ShardHeader
    """As it will be written, without what only the simulator knows."""
    student: StudentSource

    @property
    def path(self) -> Path:
        return shard_path(Path(self.out), self.header.seed, self.header.first_episode)


class ShardDone(Struct, frozen=True, kw_only=True):
    episodes: int
    solved: int
    rows: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, make what is missing, say how it goes."""
    options = _parser().parse_args(arguments)
    _prepare_environment()
    try:
        jobs = plan_jobs(options)
        missing = [job for job in jobs if not is_finished(job.path, job.header)]
        _say(f"{len(jobs) - len(missing)} of {len(jobs)} shards are there already")
        run_jobs(missing, workers=options.workers)
    except RpentBoxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def plan_jobs(options: argparse.Namespace) -> list[Job]:
    """Return one job per shard, in order of episodes."""
    find_lesson(options.suite, options.task)
    student = StudentSource(backend=options.student, checkpoint=options.checkpoint)
    identity = identify(student)
    recording = Recording(
        noise=options.noise,
        joint_noise_rad=options.joint_noise,
        student_share=options.student_share if student != NO_STUDENT else 0.0,
    )
    jobs = []
    for first in range(0, options.episodes, EPISODES_PER_SHARD):
        header = ShardHeader(
            suite=options.suite,
            task=options.task,
            seed=options.seed,
            first_episode=first,
            episodes=min(EPISODES_PER_SHARD, options.episodes - first),
            recording=recording,
            student=identity,
        )
        jobs.append(Job(out=options.out, header=header, student=student))
    return jobs


def run_jobs(jobs: Sequence[Job], *, workers: int) -> None:
    """Make the shards in `workers` processes, each with a simulator of its own."""
    if not jobs:
        return
    try:
        Path(jobs[0].out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create {jobs[0].out}: {error.strerror}") from error
    begun = time.monotonic()
    total = sum(job.header.episodes for job in jobs)
    episodes = solved = rows = 0
    # A fresh interpreter per worker: a forked one would share the parent's GL state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        futures = [pool.submit(make_shard, job) for job in jobs]
        for future in as_completed(futures, timeout=RUN_DEADLINE_S):
            try:
                done = future.result()
            except BrokenProcessPool as error:
                raise ProgramDied(
                    "a simulator's process ended abruptly; what it had finished is kept",
                    hint="Run the same command again. Out of memory? Use fewer --workers.",
                ) from error
            episodes += done.episodes
            solved += done.solved
            rows += done.rows
            spent = time.monotonic() - begun
            _say(
                f"{episodes}/{total} episodes, {solved} solved, {rows} rows, {spent:.0f} s, "
                f"about {spent / episodes * (total - episodes):.0f} s left"
            )


def make_shard(job: Job) -> ShardDone:
    """Record a shard's episodes and write them. Runs in a worker process."""
    header = job.header
    scene = _scene(header.suite, header.task)
    student = _student(job.student)
    parts: list[Columns] = []
    solved = rows = 0
    for episode in range(header.first_episode, header.first_episode + header.episodes):
        rng = np.random.default_rng([header.seed, episode])
        recorded = record_episode(scene, rng, header.recording, student)
        parts.append(_shift(recorded.columns, episode, rows))
        solved += int(recorded.solved)
        rows += len(recorded.columns["actions"])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    write_shard(job.path, _finish(header, scene.instruction, solved), columns)
    return ShardDone(episodes=header.episodes, solved=solved, rows=rows)


def _shift(columns: Columns, episode: int, rows_before: int) -> Columns:
    """Number an episode's rows as part of its shard."""
    following = columns["next_row"]
    return {
        **columns,
        "episode": np.full(len(following), episode, np.int64),
        "next_row": np.where(following >= 0, following + rows_before, -1),
    }


def _finish(header: ShardHeader, instruction: str, solved: int) -> ShardHeader:
    return msgspec.structs.replace(header, instruction=instruction, solved=solved)


@functools.lru_cache(maxsize=1)
def _scene(suite: str, task: int) -> TeachingScene:
    resources = ExitStack()
    atexit.register(resources.close)
    resources.enter_context(prepared_process())
    from rpent_box_libero.teaching.expert import Expert
    from rpent_box_libero.teaching.scene import TeachingScene

    return TeachingScene(find_lesson(suite, task), Expert())


@functools.lru_cache(maxsize=1)
def _student(source: StudentSource) -> Student | None:
    return load_student(source)


def _prepare_environment() -> None:
    """Set what MuJoCo and the maths libraries read when they are imported, also in the workers."""
    for name, value in PLATFORM.environment.items():
        os.environ.setdefault(name, value)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demonstrate", description=__doc__)
    add = parser.add_argument
    add("--out", required=True, help="folder for the shards")
    add("--episodes", type=int, required=True)
    add("--seed", type=int, default=1, help="with the episode's number, fixes an episode")
    add("--suite", default="libero_spatial")
    add("--task", type=int, default=0)
    add("--workers", type=int, default=2, help="simulators, one process each")
    add("--noise", type=float, default=1.0, help="scale of the disturbances; 0: none")
    add("--joint-noise", type=float, default=0.03, help="at the start, rad per joint")
    add("--student", default="", help="backend that acts while the expert labels (DAgger)")
    add("--checkpoint", default=None, help="the student's weights; without: its built-in ones")
    add("--student-share", type=float, default=0.8, help="of the episodes in which it acts")
    return parser


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
