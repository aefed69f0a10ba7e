# SPDX-License-Identifier: Apache-2.0
"""Processes that play episodes side by side, each with one simulator at a time.

Who is free gets the next episode of the lesson whose scene it has built already; building one takes
seconds. What a process is told and what it answers are JSON in a pipe. When its pipe ends, it ends:
no process outlives the one that started it, however that one dies.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from rpent_box.errors import BadOption, ProgramDied, RpentBoxError
from rpent_box_libero.process import prepared_process
from rpent_box_libero.teaching.episode import Recording, Student, record_episode
from rpent_box_libero.teaching.lerobot.writer import write_episode
from rpent_box_libero.teaching.lessons import find_lesson
from rpent_box_libero.teaching.student import StudentSource, load_student

if TYPE_CHECKING:
    from rpent_box_libero.teaching.scene import TeachingScene

EPISODE_DEADLINE_S = 300.0
"""An episode takes seconds, and building its scene a few more."""
EXIT_DEADLINE_S = 20.0


class Setup(Struct, frozen=True, kw_only=True):
    """What a process is told when it starts."""

    out: str
    seed: int
    recording: Recording
    student: StudentSource


class Job(Struct, frozen=True, kw_only=True):
    """One episode to play."""

    number: int
    """Among all that are asked for; of a recording, where its files lie."""
    lesson: str
    within: int
    """Its number among those of its lesson: what a recording's random numbers follow from."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a process answers, at the least."""

    number: int
    lesson: str
    failure: str = ""
    """Why it cannot go on; empty when the episode was played."""


class Done(Answer, frozen=True, kw_only=True):
    """An episode that was recorded."""

    solved: bool = False
    rows: int = 0
    seconds: float = 0.0


AnswerT = TypeVar("AnswerT", bound=Answer)


class Player(Protocol):
    """What a process does with its jobs."""

    def play(self, job: Job) -> Answer:
        """Play one episode. Raises `RpentBoxError` when it cannot."""


OpenPlayer: TypeAlias = Callable[[bytes], AbstractContextManager[Player]]
"""Makes a process's player of the setup's JSON, inside `prepared_process`; a module's function."""


def check_workers(workers: int) -> None:
    """Raise `BadOption` for a crew of nobody, who would be done at once with nothing played."""
    if workers < 1:
        raise BadOption(f"{workers} workers were asked for; wanted 1 or more")


class Crew(Generic[AnswerT]):
    """The processes. A context manager; leaving it ends them, busy or not."""

    def __init__(
        self, setup: Struct, *, opens: OpenPlayer, answers: type[AnswerT], workers: int
    ) -> None:
        self._setup_json = msgspec.json.encode(setup)
        self._opens, self._answers = opens, answers
        self._workers = workers
        self._hands: list[_Hand[AnswerT]] = []

    def __enter__(self) -> Crew[AnswerT]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hands, self._hands = self._hands, []
        for hand in hands:
            hand.pipe.close()
        for hand in hands:
            if hand.job is not None:
                hand.process.terminate()
        for hand in hands:
            hand.process.join(EXIT_DEADLINE_S)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join(EXIT_DEADLINE_S)

    def play(self, jobs: Iterable[Job]) -> Iterator[AnswerT]:
        """Yield the answer to each job when it is done.

        Raises `ProgramDied` when a process ends, or is silent for `EPISODE_DEADLINE_S`, and when it
        says that it cannot go on.
        """
        stock = Stock(jobs)
        for _ in range(min(self._workers, len(stock))):
            # One by one: who is there is ended even when the next cannot be started.
            self._hands.append(_Hand(self._setup_json, self._opens, self._answers))
        for hand in self._hands:
            hand.give(stock.take(hand.lesson, self._lessons()))
        while busy := [hand for hand in self._hands if hand.job is not None]:
            left_s = min(hand.deadline for hand in busy) - time.monotonic()
            ready = wait([hand.pipe for hand in busy], timeout=max(0.0, left_s))
            for hand in busy:
                if hand.pipe in ready:
                    done = hand.take()
                    hand.give(stock.take(hand.lesson, self._lessons()))
                    yield done
                elif hand.deadline < time.monotonic():
                    raise _died(f"episode {hand.job} took over {EPISODE_DEADLINE_S:.0f} s")

    def _lessons(self) -> set[str]:
        return {hand.lesson for hand in self._hands}


class Stock:
    """Episodes that nobody has begun, by lesson."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._lessons: dict[str, deque[Job]] = {}
        for job in jobs:
            self._lessons.setdefault(job.lesson, deque()).append(job)

    def __len__(self) -> int:
        return sum(len(jobs) for jobs in self._lessons.values())

    def take(self, lesson: str, held: set[str]) -> Job | None:
        """Return an episode of `lesson`; else of the first lesson that is not held; else of the one
        with the most left; None when there are none."""
        left = {name: len(jobs) for name, jobs in self._lessons.items() if jobs}
        if not left:
            return None
        free = [name for name in left if name not in held]
        if lesson not in left:
            lesson = free[0] if free else max(left, key=left.__getitem__)
        return self._lessons[lesson].popleft()


class _Hand(Generic[AnswerT]):
    """One process, seen from the one that started it."""

    def __init__(self, setup_json: bytes, opens: OpenPlayer, answers: type[AnswerT]) -> None:
        # A fresh interpreter: a forked one would share this one's GL state and threads.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        arguments = (setup_json, opens, theirs)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self._answers = answers
        self.job: Job | None = None
        self.lesson = ""
        self.deadline = 0.0

    def give(self, job: Job | None) -> None:
        self.job = job
        if job is None:
            return
        self.lesson = job.lesson
        self.deadline = time.monotonic() + EPISODE_DEADLINE_S
        try:
            self.pipe.send_bytes(msgspec.json.encode(job))
        except OSError as error:
            raise _died("a simulator's process ended abruptly") from error

    def take(self) -> AnswerT:
        try:
            done = msgspec.json.decode(self.pipe.recv_bytes(), type=self._answers)
        except (EOFError, OSError) as error:
            raise _died("a simulator's process ended abruptly") from error
        if done.failure:
            raise _died(f"episode {done.number} of {done.lesson}: {done.failure}")
        return done


def _died(what: str) -> ProgramDied:
    return ProgramDied(
        f"{what}; the episodes that were finished are kept",
        hint="Run the same command again to go on. Out of memory? Use fewer --workers.",
    )


def episode_rng(seed: int, lesson: str, within: int) -> np.random.Generator:
    """Return the random numbers of an episode: they follow from nothing else."""
    return np.random.default_rng([seed, zlib.crc32(lesson.encode()), within])


def _serve(setup_json: bytes, opens: OpenPlayer, pipe: Connection) -> None:
    """Play episodes until the pipe ends. Runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that started it closes the pipe
    signal.signal(signal.SIGTERM, _leave)  # without it, the simulator's temporary folder would stay
    with ExitStack() as stack:
        stack.enter_context(prepared_process())
        player = stack.enter_context(opens(setup_json))
        while True:
            try:
                job = msgspec.json.decode(pipe.recv_bytes(), type=Job)
            except EOFError:
                return
            try:
                done = player.play(job)
            except RpentBoxError as error:
                done = Answer(number=job.number, lesson=job.lesson, failure=str(error))
            try:
                pipe.send_bytes(msgspec.json.encode(done))
            except BrokenPipeError:
                return


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def record_with(setup_json: bytes) -> Recorder:
    """Open what records in a process."""
    return Recorder(msgspec.json.decode(setup_json, type=Setup))


class OneScene:
    """Keeps a scene for as long as episodes of its lesson come one after the other."""

    def __init__(self) -> None:
        self._scene: TeachingScene | None = None

    def of(self, name: str) -> TeachingScene:
        """Return the scene of the lesson called `name`."""
        from rpent_box_libero.teaching.scene import TeachingScene

        if self._scene is None or self._scene.lesson.name != name:
            self.close()  # a simulator takes a gigabyte
            self._scene = TeachingScene(find_lesson(name))
        return self._scene

    def close(self) -> None:
        """Free the simulator. May be called twice."""
        scene, self._scene = self._scene, None
        if scene is not None:
            scene.close()


class Recorder:
    """Records what it plays."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._student: Student | None = load_student(setup.student)
        self._scene = OneScene()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._scene.close()

    def play(self, job: Job) -> Done:
        begun = time.monotonic()
        rng = episode_rng(self._setup.seed, job.lesson, job.within)
        episode = record_episode(
            self._scene.of(job.lesson), rng, self._setup.recording, self._student
        )
        write_episode(Path(self._setup.out), job.number, job.lesson, episode)
        return Done(
            number=job.number,
            lesson=job.lesson,
            solved=episode.solved,
            rows=len(episode.rows),
            seconds=round(time.monotonic() - begun, 2),
        )
