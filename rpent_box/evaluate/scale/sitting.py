# SPDX-License-Identifier: Apache-2.0
"""One sitting of an evaluation, while it goes on: what will be its `Session` in `eval.json`."""

from __future__ import annotations

import time
from typing import Literal

from msgspec.structs import replace

from rpent_box.evaluate.scale.manifest import Place, Session
from rpent_box.sim.record import Started
from rpent_box.sim.results import now


class Sitting:
    """Counts and measures from its beginning to its end."""

    def __init__(
        self, number: int, started: Started, *, executor: Literal["local", "ray"], began: float
    ) -> None:
        """It `began` at that moment of `time.monotonic()`."""
        self._began = began
        self._places: dict[str, Place] = {}
        self._session = Session(
            number=number,
            started_at=now(),
            command=started.command,
            executor=executor,
            launcher=started.launcher,
            launcher_why=started.why,
        )

    @property
    def number(self) -> int:
        return self._session.number

    @property
    def is_over(self) -> bool:
        return self._session.ended_at is not None

    def playing(self) -> None:
        """Its first episode begins now. Later calls change nothing."""
        if self._session.start_s == 0.0:
            self._session = replace(self._session, start_s=self._passed_s())

    def place(self, place: Place) -> None:
        """Take how one machine stands."""
        self._places[place.name] = place

    def count(self) -> None:
        """It finished an episode."""
        self._session = replace(self._session, episodes=self._session.episodes + 1)

    def end(self, how: str) -> None:
        """It is over: `complete`, or why it ended before. Later calls change nothing."""
        if not self.is_over:
            self._session = replace(
                self._session, ended_at=now(), ended=how, wall_s=self._passed_s()
            )

    def present(self) -> Session:
        """Return how it stands."""
        wall_s = self._session.wall_s if self.is_over else self._passed_s()
        return replace(self._session, wall_s=wall_s, places=tuple(self._places.values()))

    def _passed_s(self) -> float:
        return time.monotonic() - self._began
