# SPDX-License-Identifier: Apache-2.0
"""How long a batch is held open for company. Decisions only: no clock, no lock, no thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rpent_box.worker.inference_cost import InferenceCost
from rpent_box.worker.returns import Returns

RECENT_S = 10.0
"""A connection that predicted within this time is expected to predict again."""

LATE_S = 0.0002
"""How much later than forecast a return may be heard of: threads take turns."""


class Waiting(Protocol):
    """An observation that waits for the model. Times are on the caller's clock, in seconds."""

    @property
    def connection(self) -> bytes: ...

    @property
    def received(self) -> float: ...

    @property
    def deadline(self) -> float: ...


class Gathering(Protocol):
    """Is told what happens, and asked whether to go on waiting."""

    tuned: bool

    @property
    def wait_s(self) -> float:
        """The longest that a batch is held open at present."""

    def asked(self, connection: bytes, now: float) -> None:
        """A connection sent an observation."""

    def interrupted(self, connection: bytes) -> None:
        """It sent something else that waits for the model: a reset."""

    def answered(self, connection: bytes, now: float) -> None:
        """It got its answer, and has no other question here."""

    def forget(self, connection: bytes) -> None:
        """It has ended."""

    def inferred(self, size: int, seconds: float) -> None:
        """An inference of `size` observations took `seconds`."""

    def hold_until(self, now: float, batch: Sequence[Waiting], *, room: int, since: float) -> float:
        """Return until when to hold `batch` open; `now` or earlier: it goes.

        Asked again at each arrival and when that time has come. `room` is how many more it could
        take, and `since` when it was first held, or `now`.
        """


class FixedGathering:
    """Waits a set time after the first arrival, or until all who asked lately are there."""

    tuned = False

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._asked: dict[bytes, float] = {}

    @property
    def wait_s(self) -> float:
        return self._wait_s

    def asked(self, connection: bytes, now: float) -> None:
        self._asked[connection] = now

    def interrupted(self, connection: bytes) -> None:
        """Changes nothing."""

    def answered(self, connection: bytes, now: float) -> None:
        """Changes nothing."""

    def forget(self, connection: bytes) -> None:
        self._asked.pop(connection, None)

    def inferred(self, size: int, seconds: float) -> None:
        """Changes nothing."""

    def hold_until(self, now: float, batch: Sequence[Waiting], *, room: int, since: float) -> float:
        here = {waiting.connection for waiting in batch}
        recent = now - RECENT_S
        if all(last <= recent or name in here for name, last in self._asked.items()):
            return now
        return min(waiting.received for waiting in batch) + self._wait_s


class TunedGathering:
    """Holds a batch open where that costs everyone together less time than it saves.

    An inference of b observations takes about `fixed + each · b`, as measured. Let b wait, and k
    more be expected within x seconds, as their own last pauses say.

    - Going now, the k find the model busy and then pay for an inference of their own. Waiting for
      them saves each of them `fixed - x`.
    - It costs each of the b the wait, and the longer inference: `x + each · k`.

    So the batch is held for the x with the largest `k · (fixed - x) - b · (x + each · k)`, if that
    is above zero, and the question is put again at each arrival and at the end of x. From this
    follows what one would ask for: nobody waits for a model whose time goes by the observation,
    nor for one who is not due in time, the less the more company there is already, and never
    longer than the fixed part, all holding of a batch together: as with hired skis, waiting then
    costs at most what it was to save. A batch that could miss a deadline by it goes.
    """

    tuned = True

    def __init__(self) -> None:
        self._cost = InferenceCost()
        self._returns = Returns()

    @property
    def wait_s(self) -> float:
        return self._cost.fixed_s

    def asked(self, connection: bytes, now: float) -> None:
        self._returns.asked(connection, now)

    def interrupted(self, connection: bytes) -> None:
        self._returns.interrupted(connection)

    def answered(self, connection: bytes, now: float) -> None:
        self._returns.answered(connection, now)

    def forget(self, connection: bytes) -> None:
        self._returns.forget(connection)

    def inferred(self, size: int, seconds: float) -> None:
        self._cost.add(size, seconds)

    def hold_until(self, now: float, batch: Sequence[Waiting], *, room: int, since: float) -> float:
        fixed_s, each_s = self._cost.fixed_s, self._cost.each_s
        waiting = len(batch)
        if fixed_s <= waiting * each_s:
            return now  # what follows could not come out above zero
        in_time = min(one.deadline for one in batch) - self._cost.of(waiting + room)
        latest = min(since + fixed_s, in_time)
        coming = best = 0.0
        hold = now
        for after_s, likely in self._returns.expected(now, latest - now):
            coming = min(coming + likely, room)
            saved_s = coming * (fixed_s - after_s) - waiting * (after_s + each_s * coming)
            if saved_s > best:
                best, hold = saved_s, min(latest, now + after_s + LATE_S)
        return hold
