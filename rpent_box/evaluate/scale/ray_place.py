# SPDX-License-Identifier: Apache-2.0
"""The driver's side of one box in a cluster: what it was given, what it says, and where it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from rpent_box.errors import LaunchError, ProtocolMismatch, RpentBoxError
from rpent_box.evaluate.scale.events import Envs, Failed, Finished, Known, Moved, Phase, WorkerLost
from rpent_box.evaluate.scale.executor import Tell
from rpent_box.evaluate.scale.plan import Job, TaskKey
from rpent_box.evaluate.scale.ray_actors import NEWS_GROUP
from rpent_box.evaluate.scale.ray_files import require_plain
from rpent_box.evaluate.scale.ray_logs import append_logs
from rpent_box.evaluate.scale.ray_messages import (
    Hello,
    News,
    NotPlayed,
    error_of,
    read_answer,
    read_hello,
    read_news,
    to_bytes,
)
from rpent_box.evaluate.scale.schedule import Schedule
from rpent_box.version import PROTOCOL_VERSION, __version__

if TYPE_CHECKING:
    from types import ModuleType

    from ray import ObjectRef
    from ray.actor import ActorHandle

NEWS_WAIT_S = 1.0
"""How long a machine keeps a question for news until there are some."""

AWAY_S = 20.0
"""For Ray to bring a lost box up elsewhere. Then others may have its episodes: there may be no
machine with room for a long time."""
WAITS_S = 5.0
"""For a box to be placed before it is said that it waits."""
MOST_LOSSES = 10
"""In a row, without an episode that was finished in between. The next one would end so too."""


class _Playing(Struct, frozen=True):
    """An episode on its way."""

    slot: int
    job: Job


class _Held(Struct, frozen=True):
    """What came of an episode, before it was known what it was played with."""

    life: str
    outcome: Finished | Failed


class RayPlace:
    """One box, wherever Ray has put it. Used from one thread.

    Ray restarts a lost actor on a machine with room and repeats what had been asked of it. This
    only watches: it says what is waited for, and lets others play what waits too long.
    """

    def __init__(
        self,
        ray: ModuleType,
        name: str,
        actor: ActorHandle,
        *,
        tell: Tell,
        logs: Path,
        needs: str,
        away_s: float = AWAY_S,
    ) -> None:
        """`needs` is what it takes, in words."""
        self.name = name
        self.error: RpentBoxError | None = None
        """Why it plays no more."""
        self.gave_up = False
        self.hello: Hello | None = None
        """Where it is; None while Ray looks for room."""
        self._ray = ray
        self._actor = actor
        self._tell = tell
        self._logs = logs / name
        self._needs = needs
        self._away_s = away_s
        self._envs = 0
        self._holding: dict[int, TaskKey] = {}
        self._plays: dict[ObjectRef, _Playing] = {}
        self._held: list[_Held] = []
        self._known: set[str] = set()
        """Lives that have said with what they play."""
        self._life = ""
        self._lives = 0
        self._losses = 0
        self._number = 0
        """Of the last event of this life."""
        self._since = time.monotonic()
        """Of its being away, while it is."""
        self._said = ""
        self._question: ObjectRef | None = self._ask_hello()
        """What it has not answered yet: a hello while it is away, else for news."""

    @property
    def is_known(self) -> bool:
        """It has said with what it plays, where it is now."""
        return self.hello is not None and self._life in self._known

    @property
    def plays(self) -> bool:
        """It is somewhere, and plays there, or is about to."""
        return self.hello is not None and self.error is None

    @property
    def is_first_life(self) -> bool:
        """It was never lost."""
        return self._lives <= 1

    @property
    def is_idle(self) -> bool:
        """A simulator of it has nothing to play."""
        return self.is_known and self.error is None and len(self._plays) < self._envs

    def references(self) -> Iterator[ObjectRef]:
        """Yield what to wait for; in this order, what is there is taken in."""
        # First: that a box was lost should be known before an answer of the next one comes.
        if self._question is not None:
            yield self._question
        yield from self._plays

    def fill(self, schedule: Schedule) -> None:
        """Give it a job for each simulator that has none, as far as there are some."""
        if not self.is_known or self.error is not None:
            return
        busy = {playing.slot for playing in self._plays.values()}
        for slot in range(self._envs):
            if slot in busy:
                continue
            job = schedule.take(self._slot_name(slot), self._holding.get(slot))
            if job is None:
                return
            self._holding[slot] = job.task_key
            self._plays[self._actor.play.remote(to_bytes(job))] = _Playing(slot, job)

    def answered(self, reference: ObjectRef, schedule: Schedule) -> None:
        """Take in the answer to one of `references`. Raises `OutputError`, `ProtocolMismatch`."""
        if reference in self._plays:
            self._take_outcome(reference, schedule)
        elif reference is self._question:
            self._question = None
            if self.hello is None:
                self._take_hello(reference, schedule)
            else:
                self._take_news(reference, schedule)

    def look(self, schedule: Schedule, *, others_are_idle: bool) -> None:
        """Say what is waited for, and give back what waits too long; sooner where nobody else has
        anything to do, since at worst an episode is then played twice."""
        if self.hello is not None or self.error is not None:
            return
        away_s = time.monotonic() - self._since
        patience_s = min(WAITS_S, self._away_s) if others_are_idle else self._away_s
        count = len(self._plays) + len(self._held)
        if away_s >= patience_s and count:
            self.give_back(schedule)
            episodes = "its episode" if count == 1 else f"its {count} episodes"
            self._say(f"waits for {self._needs}; others may have {episodes}")
        elif away_s >= WAITS_S and not self._said:
            self._say(f"waits for {self._needs}")

    def give_back(self, schedule: Schedule) -> None:
        """Give back every job that it has, and ask no more for their outcomes."""
        for reference, playing in self._plays.items():
            self._ray.cancel(reference)
            schedule.give_back(playing.job)
        for held in self._held:
            schedule.give_back(held.outcome.job)
        self._plays.clear()
        self._held.clear()

    def give_up(self, schedule: Schedule) -> None:
        """Let it play no more, because of its `error`."""
        self.gave_up = True
        self.give_back(schedule)
        self._leave(schedule)
        self._say(f"plays no more: {self.error.message if self.error is not None else ''}")

    def ask_to_end(self, wait_s: float) -> ObjectRef | None:
        """Ask it to end its box; None when it is nowhere. The answer is whether the box is gone."""
        if self.hello is None:
            return None
        end = self._actor.end.options(concurrency_group=NEWS_GROUP, max_task_retries=0)
        return end.remote(wait_s)

    def last_news(self) -> ObjectRef | None:
        """Ask for what it has to say once it has ended."""
        return None if self.hello is None else self._ask_news(0.0)

    def take_last_news(self, reference: ObjectRef) -> None:
        """Take in the answer to `last_news`."""
        try:
            news = read_news(self._ray.get(reference))
        except self._ray.exceptions.RayError:
            # Lost at the very end: there is nothing more to lose.
            return
        if news.life == self._life:
            self._pass_on(news)

    def _take_hello(self, reference: ObjectRef, schedule: Schedule) -> None:
        try:
            hello = read_hello(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            self.error = self._not_started(error)
            return
        _require_same(hello, self.name)
        self.hello = hello
        # The same one, where only the way to it was lost for a while.
        if hello.life != self._life:
            self._life, self._number = hello.life, 0
            self._lives += 1
        self._say(f"on {hello.host}")
        self._question = self._ask_news(NEWS_WAIT_S)
        self._take_held(schedule)

    def _take_news(self, reference: ObjectRef, schedule: Schedule) -> None:
        try:
            news = read_news(self._ray.get(reference))
        except self._ray.exceptions.RayError:
            news = None
        # Of another life: asked while Ray was starting that, which has answered.
        if news is None or news.life != self._life:
            self._lost(schedule)
            return
        self._pass_on(news)
        self._take_held(schedule)
        if news.trouble is not None:
            self.error = error_of(news.trouble, self.where)
        elif not news.ended:
            self._question = self._ask_news(NEWS_WAIT_S)

    def _take_outcome(self, reference: ObjectRef, schedule: Schedule) -> None:
        playing = self._plays.pop(reference)
        try:
            answer = read_answer(self._ray.get(reference))
        except self._ray.exceptions.RayError:
            # Its result was lost with its machine, or it will not come back.
            schedule.give_back(playing.job)
            return
        outcome = answer.outcome
        if isinstance(outcome, NotPlayed):
            schedule.give_back(playing.job)
            return
        self._require_right(outcome, playing.job)
        self._losses = 0
        self._held.append(_Held(answer.life, outcome))
        self._take_held(schedule)

    def _require_right(self, outcome: Finished | Failed, job: Job) -> None:
        """Refuse what is not of `job`, or would not lie in its folder."""
        if outcome.job != job:
            raise ProtocolMismatch(f"{self.where} has answered to {job} with another episode")
        if isinstance(outcome, Finished):
            for name in outcome.files:
                require_plain(name)

    def _take_held(self, schedule: Schedule) -> None:
        """Pass on what was played with what is known; give back what never will have been."""
        all_held, self._held = self._held, []
        for held in all_held:
            if held.life in self._known:
                self._tell(held.outcome)
            elif self.hello is None or held.life == self._life:
                self._held.append(held)
            else:
                schedule.give_back(held.outcome.job)

    def _ask_hello(self) -> ObjectRef:
        # Repeated by Ray until it is answered, wherever that is.
        return self._actor.hello.options(concurrency_group=NEWS_GROUP).remote()

    def _ask_news(self, wait_s: float) -> ObjectRef:
        # Not repeated by Ray: its error is how a loss is noticed.
        ask = self._actor.news.options(concurrency_group=NEWS_GROUP, max_task_retries=0)
        return ask.remote(self._life, self._number, wait_s)

    def _pass_on(self, news: News) -> None:
        self._number = news.number
        playing = {one.job.key for one in self._plays.values()}
        for event in news.events:
            # Results overtake news: where an episode stood that is over tells nobody anything.
            if not isinstance(event, Moved) or event.job.key in playing:
                self._tell(event)
            if isinstance(event, Envs):
                self._envs = event.count
            elif isinstance(event, Known):
                self._known.add(self._life)
        append_logs(self._logs, news.logs)

    def _lost(self, schedule: Schedule) -> None:
        where = self.where
        self.hello = None
        self._since, self._said = time.monotonic(), ""
        self._leave(schedule)
        self._tell(WorkerLost(place=self.name, reason=f"{where} is lost, or what ran there"))
        self._losses += 1
        if self._losses < MOST_LOSSES:
            self._question = self._ask_hello()
            return
        self.error = LaunchError(
            f"{where} was lost {self._losses} times in a row before an episode was finished",
            hint="Is there enough memory? Ray ends what takes too much of it. See its own logs.",
        )

    def _not_started(self, error: Exception) -> RpentBoxError:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return LaunchError(
            f"{self.name} cannot be started in the cluster: {lines[-1] if lines else error}",
            hint="Every machine needs this rpent-box, installed in the Python that Ray uses there.",
            detail=str(error),
        )

    def _leave(self, schedule: Schedule) -> None:
        for slot in self._holding:
            schedule.leave(self._slot_name(slot))

    @property
    def where(self) -> str:
        """Its name, and the machine where it is."""
        return self.name if self.hello is None else f"{self.name} on {self.hello.host}"

    def _slot_name(self, slot: int) -> str:
        return f"{self.name}/{slot}"

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._tell(Phase(component=f"{self.name} machine", text=text))


def _require_same(hello: Hello, name: str) -> None:
    ours, theirs = (__version__, PROTOCOL_VERSION), (hello.rpent_box, hello.protocol)
    if ours != theirs:
        raise ProtocolMismatch(
            f"{name} on {hello.host} has rpent-box {theirs[0]} (protocol "
            f"{theirs[1]}), this program is {ours[0]} (protocol {ours[1]})",
            hint="Install the same rpent-box on every machine of the cluster.",
        )
